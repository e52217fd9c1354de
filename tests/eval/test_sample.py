"""Offline sampling as typed, with an engine that answers by rule in the place of vLLM's."""

import json
import sys
from types import SimpleNamespace

import pytest

from eval.records import SampleFile
from eval.sample import main


class Engine:
    """Answers 34 to every prompt; `chats` has the template arguments of every call."""

    def __init__(self):
        self.chats = []

    def chat(self, messages, sampling_params, chat_template_kwargs=None):
        self.chats.append(chat_template_kwargs)
        samples = [
            SimpleNamespace(index=i, text="Answer: 34", finish_reason="stop", token_ids=[1, 2])
            for i in range(sampling_params.n)
        ]
        return [SimpleNamespace(outputs=samples) for _ in messages]


@pytest.fixture
def engine(monkeypatch):
    engine = Engine()
    vllm = SimpleNamespace(SamplingParams=lambda **values: SimpleNamespace(**values), __version__="0.24.0")
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    monkeypatch.setattr("eval.sample.load_engine", lambda *_, **__: engine)
    return engine


@pytest.fixture
def sample(engine, evaluate, make_parquet, tmp_path, monkeypatch):  # `evaluate` for grading in threads
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    data = make_parquet(2)

    def run(*more):
        fixed = ["--model", tmp_path / "model", "--data", data, "--out", tmp_path / "out.jsonl", "-n", 2]
        monkeypatch.setattr(sys, "argv", ["sample", *map(str, [*fixed, *more])])
        main()

    return run


def test_template_arguments_reach_the_engine_and_the_settings(sample, engine, tmp_path, read, summary):
    sample("--chat_template_kwargs", '{"enable_thinking": true}')
    assert engine.chats == [{"enable_thinking": True}]
    settings = json.loads((tmp_path / "out.settings.json").read_text())
    assert settings["chat_template_kwargs"] == {"enable_thinking": True}
    assert [(line["problem"], line["sample"], line["correct"]) for line in read()] == [
        (p, s, True) for p in (0, 1) for s in (0, 1)
    ]
    assert summary()["mean"] == 1.0


def test_a_second_run_replaces_the_first(sample, read):
    sample()
    sample("-n", 1)
    assert [(line["problem"], line["sample"]) for line in read()] == [(0, 0), (1, 0)]


def test_output_that_another_run_holds_costs_no_sampling(sample, engine, tmp_path, capsys):
    with SampleFile(tmp_path / "out.jsonl"), pytest.raises(SystemExit):
        sample()
    assert "out.jsonl is being written by another evaluation" in capsys.readouterr().err
    assert engine.chats == []


def test_damaged_output_costs_no_sampling(sample, engine, tmp_path, capsys):
    (tmp_path / "out.jsonl").write_text("no sample\n")
    with pytest.raises(SystemExit):
        sample()
    assert "out.jsonl:1: not JSON" in capsys.readouterr().err
    assert engine.chats == []
