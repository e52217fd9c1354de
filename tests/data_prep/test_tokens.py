"""Prompt lengths under a real chat template, and verl's own dataset on every file that is written."""

import json
import shutil

import pytest

from tests.data_prep.conftest import PREFIX, SUFFIX, card_of, rows_of, shared, write_jsonl, zhuzilin

# transformers and verl import torch, which takes longer than a fast test may.
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if think %}<think>\n{% endif %}{% endif %}"
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """A byte-level tokenizer, one token a byte and one for each special word."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|pad|>")
    made.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    made.chat_template = TEMPLATE
    path = tmp_path_factory.mktemp("tokenizer")
    made.save_pretrained(path)
    return path


def expected(problem: str, extra: int = 0) -> int:
    """Count by hand: three special words, the roles and line ends, and a token for each byte."""
    return 3 + len("user\n") + len("\nassistant\n") + len((PREFIX + problem + SUFFIX).encode()) + extra


def test_lengths_are_those_of_the_chat_template_and_long_rows_are_listed(tokenizer, run, out, tmp_path):
    rows = zhuzilin(3)
    rows[1]["prompt"][0]["content"] = PREFIX + "é" * 500 + SUFFIX
    source = write_jsonl(tmp_path / "a.jsonl", rows)
    limit = expected("What is 0 plus one?")
    assert run("dapo_math_17k_jsonl", "--input", source, "--tokenizer", tokenizer, "--max_prompt_tokens", limit) == 0
    path = out / "dapo-math-17k.parquet"
    assert [row["extra_info"]["prompt_tokens"] for row in rows_of(path)] == [limit, limit]
    card = card_of(path)
    assert card["listed"]["too_long"] == [{"source_index": 1, "prompt_tokens": expected("é" * 500)}]
    assert card["tokens"] == {"count": 2, "max": limit, "p99": limit, "mean": float(limit)}


def test_chat_template_options_count(tokenizer, run, out, tmp_path):
    source = write_jsonl(tmp_path / "a.jsonl", zhuzilin(1))
    options = ("--tokenizer", tokenizer, "--chat_template_kwargs", '{"think": true}')
    assert run("dapo_math_17k_jsonl", "--input", source, *options) == 0
    tokens = rows_of(out / "dapo-math-17k.parquet")[0]["extra_info"]["prompt_tokens"]
    assert tokens == expected("What is 0 plus one?", len("<think>\n"))


def test_a_tokenizer_that_is_none_is_named(fails, tmp_path):
    source = write_jsonl(tmp_path / "a.jsonl", zhuzilin(1))
    said = fails("dapo_math_17k_jsonl", "--input", source, "--tokenizer", tmp_path / "no")
    assert f"tokenizer='{tmp_path / 'no'}' cannot be loaded" in said


def test_a_tokenizer_with_code_of_its_own_is_refused_and_nobody_is_asked(fails, tokenizer, tmp_path, monkeypatch):
    asked, folder, ran = [], tmp_path / "own", tmp_path / "ran"
    shutil.copytree(tokenizer, folder)
    (folder / "code.py").write_text(f"open({str(ran)!r}, 'w')\nclass Tokenizer: pass\n")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings |= {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["code.Tokenizer", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    monkeypatch.setattr("builtins.input", lambda *words: asked.append(words) or "y")
    source = write_jsonl(tmp_path / "a.jsonl", zhuzilin(1))
    said = fails("dapo_math_17k_jsonl", "--input", source, "--tokenizer", folder)
    assert f"tokenizer='{folder}' cannot be loaded" in said
    assert (asked, ran.exists()) == ([], False)


def test_verl_loads_every_file_and_the_first_batch_is_the_template_exactly(tokenizer, run, out, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    from omegaconf import OmegaConf
    from torch.utils.data import DataLoader
    from transformers import AutoTokenizer
    from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

    measured = ("--tokenizer", tokenizer)
    aime, gsm8k = shared("aime-2024.parquet"), shared("gsm8k_test.jsonl")
    assert run("aime_2024", "--input", aime, *measured) == 0
    assert run("aime_2024", "--input", aime, "--keep_repeats", "--name", "aime-960") == 0
    assert run("gsm8k", "--input", gsm8k, "--template", "boxed", "--holdout", 19) == 0
    assert (
        run("arithmetic", "--template", "none", "--train_rows", 64, "--test_rows", 8, "--max_value", 99, "--overwrite")
        == 0
    )
    source = write_jsonl(tmp_path / "a.jsonl", zhuzilin(20))
    assert run("dapo_math_17k_jsonl", "--input", source) == 0
    config = OmegaConf.create({"max_prompt_length": 2048, "filter_overlong_prompts": False, "return_raw_chat": True})
    loaded = AutoTokenizer.from_pretrained(tokenizer)
    files = sorted(out.glob("*.parquet"))
    assert len(files) == 6
    for path in files:
        dataset = RLHFDataset(str(path), loaded, config)
        rows = rows_of(path)
        assert len(dataset) == len(rows)
        batch = next(iter(DataLoader(dataset, batch_size=8, collate_fn=collate_fn)))
        template = card_of(path)["options"]["template"]
        for messages, row in zip(batch["raw_prompt"], rows, strict=False):
            problem = row["extra_info"]["raw_problem"]
            wrap = {"answer": (PREFIX, SUFFIX), "none": ("", "")}.get(template) or (
                "",
                "\n\nPlease reason step by step, and put your final answer within \\boxed{}.",
            )
            text = loaded.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
            turn = f"<|im_start|>user\n{wrap[0]}{problem}{wrap[1]}<|im_end|>\n<|im_start|>assistant\n"
            assert text == turn
    ours = [str(path) for path in files if path.stem != "aime-960"]
    assert len(RLHFDataset(ours, loaded, config)) == sum(len(rows_of(path)) for path in files) - 960
    longest = max(row["extra_info"]["prompt_tokens"] for row in rows_of(out / "aime-2024.parquet"))
    for limit, kept in ((longest, 30), (longest - 1, 29)):
        strict = OmegaConf.merge(config, {"max_prompt_length": limit, "filter_overlong_prompts": True})
        assert len(RLHFDataset(str(out / "aime-2024.parquet"), loaded, strict)) == kept
