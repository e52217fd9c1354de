"""Shared data of the reward tests."""

import json
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data"


def shared(name: str) -> Path:
    """Path of a shared data file; skips the test when it is absent."""
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"shared data {path} is absent")
    return path


@pytest.fixture(scope="session")
def public_cases() -> list[dict]:
    with shared("reward_cases_public.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="session")
def aime_golds() -> list[str]:
    pq = pytest.importorskip("pyarrow.parquet")
    rows = pq.read_table(shared("aime-2024.parquet"), columns=["reward_model"]).to_pylist()
    return sorted({row["reward_model"]["ground_truth"] for row in rows})
