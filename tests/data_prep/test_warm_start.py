"""A warm start on prepared problems: what is seen, what is learned, what is left alone."""

import json
import random
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from data_prep.tiny_model import build_model, build_tokenizer
from data_prep.warm_start import examples, main


@pytest.fixture
def data(tmp_path):
    rows = [
        {
            "prompt": [{"role": "user", "content": f"{a}+1=?"}],
            "reward_model": {"ground_truth": str(a + 1)},
            "extra_info": {"solution": "one more" if a == 2 else None},
        }
        for a in range(6)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "train.parquet")
    return tmp_path / "train.parquet"


@pytest.fixture
def model(tmp_path):
    torch.manual_seed(1)
    torch.set_num_threads(1)  # so small a model only waits for other threads
    tokenizer = build_tokenizer()
    folder = tmp_path / "model"
    build_model(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def run(data, model, tmp_path, monkeypatch):
    def run(*more):
        fixed = ["--model", model, "--data", data, "--out", tmp_path / "out"]
        monkeypatch.setattr(sys, "argv", ["warm_start", *map(str, [*fixed, *more])])
        main()
        return tmp_path / "out"

    return run


def test_each_row_is_its_prompt_its_solution_if_any_and_its_answer_line(data):
    tokenizer = build_tokenizer()
    stream = examples(data, tokenizer, rows=3, rng=random.Random(1))
    seen = {tuple(tokenizer.decode(part) for part in next(stream)) for _ in range(6)}
    assert seen == {  # the chat template by hand
        ("<|user|>0+1=?<|im_end|><|assistant|>", "Answer: 1<|im_end|>"),
        ("<|user|>1+1=?<|im_end|><|assistant|>", "Answer: 2<|im_end|>"),
        ("<|user|>2+1=?<|im_end|><|assistant|>", "one more\nAnswer: 3<|im_end|>"),
    }


def response_loss(folder, prompt, response):
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    ids, answer = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in (prompt, response))
    labels = torch.tensor([[-100] * len(ids) + answer])
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids + answer]), labels=labels).loss.item()


def test_the_answer_line_becomes_likely(run, model):
    text = ("<|user|>3+1=?<|im_end|><|assistant|>", "Answer: 4<|im_end|>")
    out = run("--steps", 12, "--batch_size", 6, "--learning_rate", 5e-3)
    assert response_loss(out, *text) < 0.5 * response_loss(model, *text)
    assert json.loads((out / "warm_start.json").read_text())["steps"] == 12


def test_a_foreign_folder_is_left_alone(run, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    with pytest.raises(SystemExit):
        run()
    assert "was not made by this command" in capsys.readouterr().err


def test_missing_data_is_said_before_the_model_is_read(run, data, capsys):
    data.unlink()
    with pytest.raises(SystemExit):
        run()
    assert "train.parquet does not exist" in capsys.readouterr().err
