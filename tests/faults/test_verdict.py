from typing import Any

from tests.faults.verdict import clear, refuses, summary, table


def test_a_clear_end():
    assert clear("Traceback ...\nerror: X. The same command goes on from c/global_step_3.\n\n")
    assert not clear("The same command goes on from here.\n(raylet) terminated\n")
    assert not clear("")


def test_a_refusal_names_the_file():
    assert refuses("error: this run cannot work: data.train_files=/r/train.parquet ...\n", "train.parquet")
    assert refuses("error: ended with status 2:\n  error: train.parquet\nThe same command", "train.parquet")
    assert not refuses("Traceback\nArrowInvalid: train.parquet", "train.parquet")


def test_losses_are_counted_by_kind():
    records: list[dict[str, Any]] = [
        {"kind": "sigterm", "problems": [], "seconds_to_recover": 60.0},
        {"kind": "sigterm", "problems": ["left running"], "seconds_to_recover": 70.0},
        {"kind": "corrupted_data", "problems": [], "seconds_to_recover": None},
    ]
    assert summary(records[:1], records[1:2])["losses"] == 1  # done again since, and lost all the same
    result = summary(records)
    assert (result["faults"], result["losses"]) == (3, 1)
    assert result["kinds"]["sigterm"] == {"count": 2, "losses": 1, "median_s_to_recover": 65.0}
    assert result["kinds"]["corrupted_data"]["median_s_to_recover"] is None
    assert "| sigterm | 2 | 1 | 65.0 |" in table(result).splitlines()
