"""The command line on small files in the published layouts: what is kept, what is dropped, and that it is said."""

import pytest

from data_prep.schema import SCHEMA
from tests.data_prep.conftest import (
    PREFIX,
    SUFFIX,
    card_of,
    dapo_row,
    problems_of,
    rows_of,
    write_jsonl,
    write_parquet,
    zhuzilin,
)


def test_a_repeated_file_becomes_one_row_a_problem_in_the_schema(run, out, tmp_path):
    rows = [dapo_row(f"What is {i % 3} plus 4?", str(i % 3 + 4), f"id{i}") for i in range(12)]
    rows.append(dapo_row(" What is 0  plus 4?\n", "04"))  # the same but for white space and a leading zero
    source = write_parquet(tmp_path / "in.parquet", rows)
    assert run("dapo_math_17k", "--input", source) == 0
    path = out / "dapo-math-17k.parquet"
    assert rows_of(path) == [
        {
            "data_source": "math_dapo",
            "prompt": [{"content": f"{PREFIX}What is {i} plus 4?{SUFFIX}", "role": "user"}],
            "ability": "MATH",
            "reward_model": {"ground_truth": str(i + 4), "style": "rule-lighteval/MATH_v2"},
            "extra_info": {
                "index": i,
                "raw_problem": f"What is {i} plus 4?",
                "source_index": i,
                "split": "train",
                "prompt_tokens": None,
                "solution": None,
            },
        }
        for i in range(3)
    ]
    assert card_of(path)["counts"] == {"rows_in": 13, "dropped": {"duplicate": 10}, "written": {path.name: 3}}


def test_the_schema_is_the_same_for_every_source(run, out, tmp_path):
    import pyarrow.parquet as pq

    run("dapo_math_17k_jsonl", "--input", write_jsonl(tmp_path / "a.jsonl", zhuzilin(3)))
    run("arithmetic", "--train_rows", 5, "--test_rows", 5)
    for name in ("dapo-math-17k", "train", "test"):
        assert pq.read_schema(out / f"{name}.parquet").equals(SCHEMA)


CONFLICT = [dapo_row("P?", "1"), dapo_row("Q?", "2"), dapo_row("P?", "3"), dapo_row("P?", "1"), dapo_row("P ?", "5")]


def test_files_of_another_source_are_replaced_only_when_told(run, fails, out):
    small = ["--train_rows", "5", "--test_rows", "2"]
    assert run("arithmetic", *small) == 0
    assert run("arithmetic", *small, "--template", "none") == 0  # other options of the same source are a new version
    card = out / "train.card.json"
    card.write_text(card.read_text().replace('"name": "arithmetic"', '"name": "gsm8k"'))
    before = (out / "train.parquet").read_bytes()
    message = fails("arithmetic", *small)
    assert "train.parquet: was made from the source gsm8k" in message
    assert "--overwrite" in message
    assert (out / "train.parquet").read_bytes() == before
    assert run("arithmetic", *small, "--overwrite") == 0
    assert "overwrite" not in card_of(out / "train.parquet")["options"]


def test_two_answers_to_one_problem_are_an_error_that_lists_them(fails, out, tmp_path):
    source = write_parquet(tmp_path / "in.parquet", CONFLICT)
    said = fails("dapo_math_17k", "--input", source)
    assert "1 problems come with more than one answer" in said
    assert "1 (in.parquet row 0) against 3 (in.parquet row 2)" in said
    assert not list(out.glob("*"))


@pytest.mark.parametrize(
    ("policy", "kept", "dropped"),
    [
        ("drop", ["Q?", "P ?"], {"conflict": 2, "duplicate": 1}),
        ("keep_first", ["P?", "Q?", "P ?"], {"conflict": 1, "duplicate": 1}),
    ],
)
def test_conflicts_go_as_told(policy, kept, dropped, run, out, tmp_path):
    source = write_parquet(tmp_path / "in.parquet", CONFLICT)
    assert run("dapo_math_17k", "--input", source, "--conflicts", policy) == 0
    assert problems_of(out / "dapo-math-17k.parquet") == kept
    assert card_of(out / "dapo-math-17k.parquet")["counts"]["dropped"] == dropped


def test_the_raw_problem_column_wins_and_templates_are_applied_to_it(run, out, tmp_path):
    rows = [dapo_row("What?", "1", raw=True), dapo_row("Who?", "2", raw=True)]
    rows[0]["prompt"][0]["content"] = "Think hard about this, in a wrap that nobody knows: What? Good luck."
    source = write_parquet(tmp_path / "in.parquet", rows)
    run("dapo_math_17k", "--input", source, "--template", "boxed", "--name", "b")
    run("dapo_math_17k", "--input", source, "--template", "none", "--name", "n")
    boxed, none = (rows_of(out / f"{name}.parquet")[0]["prompt"][0]["content"] for name in "bn")
    assert boxed == "What?\n\nPlease reason step by step, and put your final answer within \\boxed{}."
    assert none == "What?"
    assert card_of(out / "b.parquet")["options"]["template"] == "boxed"


def test_lang_en_drops_other_scripts_and_ignores_their_conflicts(run, out, tmp_path):
    rows = [dapo_row("求值?", "1"), dapo_row("求值?", "2"), dapo_row("What?", "3")]
    source = write_parquet(tmp_path / "in.parquet", rows)
    assert run("dapo_math_17k", "--input", source, "--lang", "en") == 0
    assert problems_of(out / "dapo-math-17k.parquet") == ["What?"]
    assert card_of(out / "dapo-math-17k.parquet")["counts"]["dropped"] == {"duplicate": 1, "language": 1}


def test_the_slices_of_the_tutorial_are_disjoint(run, out, tmp_path):
    source = write_jsonl(tmp_path / "dapo-math-17k.jsonl", zhuzilin(2500))
    assert run("dapo_math_17k_jsonl", "--input", source, "--split", "train=0:2000", "test=2000:2100") == 0
    train, test = rows_of(out / "train.parquet"), rows_of(out / "test.parquet")
    assert [len(train), len(test)] == [2000, 100]
    assert [row["extra_info"]["source_index"] for row in test] == list(range(2000, 2100))
    assert test[0]["reward_model"]["ground_truth"] == "2001"
    assert {row["extra_info"]["split"] for row in test} == {"test"}
    assert not set(problems_of(out / "train.parquet")) & set(problems_of(out / "test.parquet"))


def test_slices_share_no_problem_even_when_the_rows_do(run, out, tmp_path):
    source = write_jsonl(tmp_path / "a.jsonl", [*zhuzilin(10), *zhuzilin(10, start=5)])
    assert run("dapo_math_17k_jsonl", "--input", source, "--split", "train=0:10", "test=10:20") == 0
    assert len(rows_of(out / "test.parquet")) == 5
    assert card_of(out / "test.parquet")["counts"]["dropped"] == {"duplicate": 5}


def test_a_slice_without_a_name_is_named_by_its_rows_and_parquet_is_sliced_too(run, out, tmp_path):
    source = write_parquet(tmp_path / "in.parquet", [dapo_row(f"P{i}?", str(i)) for i in range(30)])
    assert run("dapo_math_17k", "--input", source, "--split", "5:8") == 0
    assert problems_of(out / "dapo-math-17k-5-8.parquet") == ["P5?", "P6?", "P7?"]


def test_a_slice_beyond_the_end_is_an_error_and_a_short_one_a_warning(run, fails, out, tmp_path, capsys):
    source = write_jsonl(tmp_path / "a.jsonl", zhuzilin(10))
    assert "rows 10:20 hold no row" in fails("dapo_math_17k_jsonl", "--input", source, "--split", "10:20")
    assert run("dapo_math_17k_jsonl", "--input", source, "--split", "8:20") == 0
    assert "the source ends at 10" in capsys.readouterr().out


def test_the_holdout_is_seeded_disjoint_and_leaves_nothing_out(run, out, tmp_path):
    source = write_jsonl(tmp_path / "a.jsonl", zhuzilin(50))
    held = {}
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        args = ("--holdout", 10, "--seed", seed, "--name", name)
        assert run("dapo_math_17k_jsonl", "--input", source, *args) == 0
        held[name] = problems_of(out / f"{name}-holdout.parquet")
        rest = problems_of(out / f"{name}.parquet")
        assert [len(held[name]), len(rest), len({*held[name], *rest})] == [10, 40, 50]
    assert held["a"] == held["b"] != held["c"]
    assert card_of(out / "a.parquet")["counts"]["written"] == {"a.parquet": 40, "a-holdout.parquet": 10}


def test_the_same_input_and_options_give_the_same_bytes_wherever_they_lie(run, out, tmp_path):
    kept = {}
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        source = write_jsonl(tmp_path / folder / "a.jsonl", zhuzilin(500))
        assert run("dapo_math_17k_jsonl", "--input", source, "--holdout", 100) == 0
        kept[folder] = {path.name: path.read_bytes() for path in out.iterdir()}
    assert len(kept["x"]) == 4
    assert kept["x"] == kept["y"]


def test_decontamination_drops_exact_and_near_copies_and_lists_them(run, out, tmp_path):
    aime = "Every morning Aya goes for a 9-kilometer-long walk and stops at a coffee shop afterwards for 20 minutes."
    near = aime.replace("9", "7").replace("20", "35")
    rows = [dapo_row(aime.upper(), "1"), dapo_row(near, "2"), dapo_row("What is one plus one?", "2")]
    source = write_parquet(tmp_path / "in.parquet", rows)
    held = write_parquet(tmp_path / "eval.parquet", [dapo_row(aime, "204", raw=True)])
    assert run("dapo_math_17k", "--input", source, "--decontaminate", held) == 0
    card = card_of(out / "dapo-math-17k.parquet")
    assert card["counts"]["dropped"] == {"contaminated_13gram": 1, "contaminated_exact": 1}
    assert card["listed"] == {"contaminated_exact": [0], "contaminated_13gram": [1]}


def test_an_answer_in_the_problem_is_a_warning(run, out, tmp_path, capsys):
    source = write_parquet(tmp_path / "in.parquet", [dapo_row("Find x. The answer is 385.", "385")])
    run("dapo_math_17k", "--input", source)
    assert "1 problems hold a sentence with their own answer" in capsys.readouterr().out
    assert card_of(out / "dapo-math-17k.parquet")["listed"] == {"gives_away_answer": [0]}


def test_bad_rows_can_be_dropped_and_are_listed(run, out, tmp_path):
    rows = [{**row, "prompt": row["prompt"][0]["content"]} for row in zhuzilin(2)]
    source = write_jsonl(tmp_path / "a.jsonl", [*rows, {"prompt": "What?", "label": "[INVALID]"}])
    assert run("dapo_math_17k_jsonl", "--input", source, "--bad_rows", "drop") == 0
    card = card_of(out / "dapo-math-17k.parquet")
    assert card["counts"]["dropped"] == {"bad_row": 1}
    assert card["listed"]["bad_row"][0]["source_index"] == 2
    assert card["listed"]["bad_row"][0]["column"] == "label"


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_a_users_own_file_with_named_columns(suffix, run, out, tmp_path):
    import pandas as pd

    frame = pd.DataFrame({"q": ["What is 1+1?", 'Say "2, or\n3"'], "a": [2, 3], "other": ["x", "y"]})
    source = tmp_path / f"mine{suffix}"
    {
        ".jsonl": lambda: frame.to_json(source, orient="records", lines=True),
        ".csv": lambda: frame.to_csv(source, index=False),
        ".parquet": lambda: frame.to_parquet(source),
    }[suffix]()
    columns = ("--problem_column", "q", "--answer_column", "a", "--data_source", "my_math")
    assert run("file", "--input", source, *columns) == 0
    rows = rows_of(out / "train.parquet")
    assert [row["extra_info"]["raw_problem"] for row in rows] == ["What is 1+1?", 'Say "2, or\n3"']
    assert [row["reward_model"]["ground_truth"] for row in rows] == ["2", "3"]
    assert {row["data_source"] for row in rows} == {"my_math"}


def test_a_users_own_file_with_a_struct_column(run, out, tmp_path):
    source = write_parquet(tmp_path / "in.parquet", [dapo_row("What?", "1")])
    columns = ("--problem_column", "prompt", "--answer_column", "reward_model.ground_truth")
    assert run("file", "--input", source, *columns) == 0
    assert problems_of(out / "train.parquet") == ["What?"]


def test_math_500_and_aime_2025_layouts(run, out, tmp_path):
    run("math_500", "--input", write_jsonl(tmp_path / "t.jsonl", [{"problem": "P?", "answer": "\\frac{1}{2}"}]))
    run("aime_2025", "--input", write_jsonl(tmp_path / "u.jsonl", [{"question": "P?", "answer": "070"}]))
    assert rows_of(out / "math-500.parquet")[0]["reward_model"]["ground_truth"] == "\\frac{1}{2}"
    assert rows_of(out / "aime-2025.parquet")[0]["reward_model"]["ground_truth"] == "70"


def test_two_splits_share_no_problem_and_the_test_split_keeps_it(run, out, tmp_path):
    def rows(*numbers):
        return [{"question": f"What is {n}?", "answer": f"It is so. #### {n}"} for n in numbers]

    train, test = write_jsonl(tmp_path / "a.jsonl", rows(1, 2, 3)), write_jsonl(tmp_path / "b.jsonl", rows(3, 4))
    assert run("gsm8k", "--input", f"train={train}", f"test={test}") == 0
    assert problems_of(out / "test.parquet") == ["What is 3?", "What is 4?"]
    assert problems_of(out / "train.parquet") == ["What is 1?", "What is 2?"]


def test_a_gsm8k_row_has_its_working_for_a_warm_start(run, out, tmp_path):
    answer = "Ann has 3*2=<<3*2=6>>6 pens.\nShe gives 1 away: 6-1=<<6-1=5>>5.\n#### 5"
    source = write_jsonl(tmp_path / "a.jsonl", [{"question": "How many?", "answer": answer}])
    assert run("gsm8k", "--input", f"train={source}") == 0
    (row,) = rows_of(out / "train.parquet")
    assert row["extra_info"]["solution"] == "Ann has 3*2=6 pens.\nShe gives 1 away: 6-1=5."
    assert row["reward_model"]["ground_truth"] == "5"


def test_long_prompts_are_dropped_listed_and_measured_with_the_template_on(run, out, tmp_path, monkeypatch):
    """With a stand-in that counts characters; `test_tokens.py` has the real tokenizer."""

    class Counter:
        def __init__(self, path, options):
            assert (path, options) == ("model", {"think": True})

        def count(self, prompts):
            return [len(turn["content"]) for (turn,) in prompts]

    monkeypatch.setattr("data_prep.pipeline.TokenCounter", Counter)
    source = write_parquet(tmp_path / "in.parquet", [dapo_row("Short?", "1"), dapo_row("Rather long?", "2")])
    limit = len(PREFIX + "Short?" + SUFFIX)
    options = ("--tokenizer", "model", "--chat_template_kwargs", '{"think": true}')
    assert run("dapo_math_17k", "--input", source, *options, "--max_prompt_tokens", limit) == 0
    assert [row["extra_info"]["prompt_tokens"] for row in rows_of(out / "dapo-math-17k.parquet")] == [limit]
    card = card_of(out / "dapo-math-17k.parquet")
    assert card["counts"]["dropped"] == {"too_long": 1}
    assert card["listed"] == {"too_long": [{"source_index": 1, "prompt_tokens": limit + 6}]}
    assert card["tokens"]["max"] == limit


def test_no_row_left_is_an_error(fails, tmp_path):
    source = write_parquet(tmp_path / "in.parquet", [dapo_row("求值?", "1")])
    assert "no row is left" in fails("dapo_math_17k", "--input", source, "--lang", "en")
