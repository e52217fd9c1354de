"""The real AIME 2024 and GSM8K files: nothing lost, nothing changed but what is meant to be."""

import json

import pyarrow.parquet as pq

from data_prep.answers import canonical
from tests.data_prep.conftest import PREFIX, SUFFIX, card_of, problems_of, rows_of, shared, write_parquet

# AIME I and II 2024, in the order of the papers.
AIME_I = [204, 25, 809, 116, 104, 294, 540, 197, 480, 113, 371, 385, 110, 104, 721]
AIME_II = [73, 236, 45, 33, 80, 55, 699, 127, 902, 468, 601, 23, 321, 211, 315]
COLUMNS = ["data_source", "prompt", "ability", "reward_model", "extra_info"]


def test_aime_is_thirty_rows_with_the_known_golds_and_the_published_prompts(run, out):
    source = shared("aime-2024.parquet")
    assert run("aime_2024", "--input", source) == 0
    rows = rows_of(out / "aime-2024.parquet")
    assert sorted(int(row["reward_model"]["ground_truth"]) for row in rows) == sorted(AIME_I + AIME_II)
    published = {row["prompt"][0]["content"]: row["reward_model"] for row in pq.read_table(source).to_pylist()}
    assert {row["prompt"][0]["content"]: row["reward_model"] for row in rows} == published
    assert all(row["prompt"][0]["content"] == PREFIX + row["extra_info"]["raw_problem"] + SUFFIX for row in rows)
    card = card_of(out / "aime-2024.parquet")
    assert card["counts"]["dropped"] == {"duplicate": 930}
    assert card["source"]["pinned"] is True


def test_keep_repeats_gives_all_rows_with_the_five_columns_as_they_were(run, out):
    source = shared("aime-2024.parquet")
    assert run("aime_2024", "--input", source, "--keep_repeats") == 0
    before, after = pq.read_table(source, columns=COLUMNS), pq.read_table(out / "aime-2024.parquet")
    assert after.num_rows == 960
    assert after.schema.remove_metadata().equals(before.schema.remove_metadata())
    assert after.equals(before)


def test_a_copy_with_a_wrong_gold_is_not_taken_for_the_published_file(run, out, tmp_path, capsys):
    rows = pq.read_table(shared("aime-2024.parquet"), columns=COLUMNS).to_pylist()
    for row in rows:
        gold = row["reward_model"]["ground_truth"]
        row["reward_model"]["ground_truth"] = "384" if gold == "385" else gold
    assert run("aime_2024", "--input", write_parquet(tmp_path / "aime-2024.parquet", rows)) == 0
    assert "not the published file" in capsys.readouterr().out


def test_keep_repeats_refuses_what_it_would_have_to_change(fails, tmp_path):
    rows = pq.read_table(shared("aime-2024.parquet"), columns=COLUMNS).to_pylist()[:3]
    rows[1]["reward_model"]["ground_truth"] = "033"
    source = write_parquet(tmp_path / "a.parquet", rows)
    assert "row 1, column 'reward_model.ground_truth'" in fails("aime_2024", "--input", source, "--keep_repeats")
    assert "template would change" in fails("aime_2024", "--input", source, "--keep_repeats", "--template", "boxed")


def test_every_gsm8k_gold_is_canonical_and_none_is_lost(run, out):
    source = shared("gsm8k_test.jsonl")
    assert run("gsm8k", "--input", source) == 0
    raw = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    rows = rows_of(out / "test.parquet")
    assert problems_of(out / "test.parquet") == [row["question"].strip() for row in raw]
    for row, published in zip(rows, raw, strict=True):
        gold = row["reward_model"]["ground_truth"]
        assert int(gold) == int(published["answer"].split("####")[1].replace(",", ""))
        assert gold == str(int(gold)) == canonical(gold)


def test_gsm8k_train_rows_that_retell_a_test_problem_are_found(run, out):
    """The four rows were read: stamps of Bella and of Max, two movies twice, a train and a plane, a box and boxes."""
    sources = shared("gsm8k_test.jsonl"), shared("gsm8k_train_2000.jsonl")
    assert run("gsm8k", "--input", sources[1], "--decontaminate", sources[0]) == 0
    assert card_of(out / "train.parquet")["listed"] == {"contaminated_13gram": [20, 406, 1314, 1651]}
    assert len(rows_of(out / "train.parquet")) == 1996
