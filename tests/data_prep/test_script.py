"""`scripts/prepare_data.sh` writes the two files of the 32B recipes in one line."""

import os
import subprocess
import sys
from pathlib import Path

from tests.data_prep.conftest import card_of, dapo_row, problems_of, write_parquet

SCRIPT = Path(__file__).parents[2] / "scripts" / "prepare_data.sh"


def test_both_files_with_one_template_and_no_test_problem_in_the_training_file(tmp_path):
    train = [
        dapo_row(p, a)
        for p, a in [("P?", "1"), ("P?", "1"), ("Q?", "2"), ("Q?", "3"), ("Held out?", "4"), ("求?", "5")]
    ]
    environment = {
        **os.environ,
        "PYTHON": sys.executable,
        "DATA_DIR": "data",
        "TEMPLATE": "boxed",
        "TRAIN_INPUT": str(write_parquet(tmp_path / "a.parquet", train)),
        "TEST_INPUT": "b.parquet",
    }
    write_parquet(tmp_path / "b.parquet", [dapo_row("Held out?", "4", raw=True)] * 32)
    done = subprocess.run(
        ["bash", SCRIPT, "--lang", "en"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    train_file, test_file = tmp_path / "data/dapo-math-17k.parquet", tmp_path / "data/aime-2024.parquet"
    assert problems_of(train_file) == ["P?"]
    assert problems_of(test_file) == ["Held out?"]
    assert {card_of(path)["options"]["template"] for path in (train_file, test_file)} == {"boxed"}
    assert card_of(train_file)["counts"]["dropped"] == {
        "conflict": 2,
        "contaminated_exact": 1,
        "duplicate": 1,
        "language": 1,
    }


def test_a_tokenizer_measures_both_files_and_drops_from_the_training_file_only(tmp_path):
    (tmp_path / "model").mkdir()
    plain, measured = (
        subprocess.run(
            ["bash", SCRIPT],
            cwd=tmp_path,
            env={**os.environ, "PYTHON": "echo", "DATA_DIR": "data", **words},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for words in ({}, {"TOKENIZER": "model", "MAX_PROMPT_TOKENS": "99"})
    )
    assert not any("--tokenizer" in line for line in plain)
    test_file, train_file = measured
    assert test_file.endswith(f"--tokenizer {tmp_path}/model")
    assert train_file.endswith(f"--tokenizer {tmp_path}/model --max_prompt_tokens 99")
