from collections import Counter

import pytest

from eval.problems import hashes, read_problems, samples_a_problem, with_system


def test_published_file_is_thirty_problems_of_32_rows(shared_data):
    problems, rows = read_problems(shared_data / "aime-2024.parquet")
    assert len(problems) == 30
    assert set(rows.values()) == {32}
    assert samples_a_problem(rows, None) == 32
    assert {"204", "809", "116", "104", "294", "540", "197", "480"} <= {p.gold for p in problems}  # AIME 2024 I


def test_hashes_tell_problems_apart_and_not_their_order_or_number(make_parquet):
    once, _ = read_problems(make_parquet(5))
    often, _ = read_problems(make_parquet(5, repeats=3, name="often.parquet"))
    assert [p.digest for p in once] != [p.digest for p in often]  # shuffled otherwise
    assert hashes(once, None) == hashes(often, None)
    assert hashes(once, None)["prompt_hash"] != hashes(once, "Be brief.")["prompt_hash"]
    assert hashes(once, None)["data_hash"] == hashes(once, "Be brief.")["data_hash"]
    other, _ = read_problems(make_parquet(5, name="other.parquet", gold=str))
    assert hashes(once, None)["prompt_hash"] == hashes(other, None)["prompt_hash"]
    assert hashes(once, None)["data_hash"] != hashes(other, None)["data_hash"]


def test_conflicting_golds_are_refused(make_parquet):
    golds = iter("12")
    with pytest.raises(ValueError, match=r"problem 0 has the golds '[12]' and '[12]'"):
        read_problems(make_parquet(1, repeats=2, gold=lambda _: next(golds)))


def test_unequal_numbers_of_rows_need_a_word(make_parquet):
    rows = Counter({0: 2, 1: 3})
    with pytest.raises(ValueError, match="between 2 and 3 rows; say --n"):
        samples_a_problem(rows, None)
    assert samples_a_problem(rows, 4) == 4


def test_missing_and_wrong_files_name_the_remedy(tmp_path):
    with pytest.raises(ValueError, match=r"does not exist; python -m data_prep\.prepare"):
        read_problems(tmp_path / "aime-2024.parquet")
    (tmp_path / "x.parquet").write_text("{}")
    with pytest.raises(ValueError, match=r"x\.parquet: not a parquet of data_prep"):
        read_problems(tmp_path / "x.parquet")


def test_system_message_is_replaced_not_doubled():
    user = {"role": "user", "content": "?"}
    system = {"role": "system", "content": "old"}
    assert with_system([system, user], None) == [system, user]
    assert with_system([system, user], "new") == [{"role": "system", "content": "new"}, user]
