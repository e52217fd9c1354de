"""What the tests of data preparation share: small files in the published layouts, and the command line in process."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_prep.prepare import main

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data"
# Written out, not imported: the wrap as published, so that a slip in templates.py is seen.
PREFIX = (
    "Solve the following math problem step by step. The last line of your response should be of the form Answer: "
    "$Answer (without quotes) where $Answer is the answer to the problem.\n\n"
)
SUFFIX = '\n\nRemember to put your answer on its own line after "Answer:".'


def shared(name: str) -> Path:
    """Return a shared data file; the test is skipped where there is none."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"needs ../shared/data/{name}")
    return path


def dapo_row(problem: str, answer, index="x", raw: bool = False) -> dict:
    """Return a row in the layout of dapo-math-17k.parquet."""
    return {
        "data_source": "math_dapo",
        "prompt": [{"content": PREFIX + problem + SUFFIX, "role": "user"}],
        "ability": "MATH",
        "reward_model": {"ground_truth": answer, "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": index, **({"raw_problem": problem} if raw else {})},
    }


def write_parquet(path: Path, rows: list[dict]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def write_jsonl(path: Path, rows: list) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def zhuzilin(n: int, start: int = 0) -> list[dict]:
    """Return rows of zhuzilin's jsonl layout with the problems `start` to `start + n`."""
    texts = ((i, f"{PREFIX}What is {i} plus one?{SUFFIX}") for i in range(start, start + n))
    return [{"prompt": [{"content": text, "role": "user"}], "label": str(i + 1)} for i, text in texts]


def rows_of(path: Path) -> list[dict]:
    return pq.read_table(path).to_pylist()


def problems_of(path: Path) -> list[str]:
    return [row["extra_info"]["raw_problem"] for row in rows_of(path)]


def card_of(path: Path) -> dict:
    return json.loads(path.with_suffix(".card.json").read_text(encoding="utf-8"))


@pytest.fixture
def out(tmp_path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def run(out):
    """Run the command line into `out`; return its exit status."""
    return lambda *args: main([*map(str, args), "--out", str(out), "--no_progress"])


@pytest.fixture
def fails(run, capsys):
    """Run a command line that must fail; return what it says."""

    def call(*args) -> str:
        assert run(*args) == 2
        return capsys.readouterr().err

    return call
