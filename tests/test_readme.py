"""The README's examples of plugging in run as they stand."""

import importlib
import re
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from data_prep.options import Options
from data_prep.pipeline import prepare
from recipe.group_filter import Group
from recipe.sampler_settings import load_filter
from tests.data_prep.conftest import rows_of, write_jsonl

README = Path(__file__).parents[1] / "README.md"
EXAMPLES = dict(re.findall(r"```python\n# (\S+\.py)\n(.*?)```", README.read_text(), re.DOTALL))


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Import an example as a file that a user has written."""

    def load(path):
        name = Path(path).stem
        (tmp_path / f"{name}.py").write_text(EXAMPLES[path])
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, name, raising=False)
        return importlib.import_module(name)

    return load


def test_there_are_three_examples_of_ten_lines():
    assert set(EXAMPLES) == {"my_reward.py", "my_filter.py", "data_prep/sources/riddles.py"}
    assert all(len(text.strip().splitlines()) <= 13 for text in EXAMPLES.values())


def test_reward(module):
    class Tokenizer:
        all_special_ids = (0,)

        def decode(self, ids, skip_special_tokens=False):
            return "".join(map(chr, ids))

    config = OmegaConf.create(
        {"data": {"max_response_length": 4096}, "reward": {"reward_kwargs": {"overlong_buffer_cfg": {"enable": False}}}}
    )
    manager = module("my_reward.py").BrevityReward(config, Tokenizer())
    brief, long = (
        manager.score_ids([ord(c) for c in text], "34") for text in ("Answer: 34", "x" * 1500 + "\nAnswer: 34")
    )
    assert (brief[0], brief[1]["score"], brief[1]["acc"]) == (1.0, 1.0, 1.0)
    assert (long[0], long[1]["score"], long[1]["acc"]) == (0.5, 0.5, 1.0)
    assert brief[1].keys() == long[1].keys()


def test_filter(module):
    module("my_filter.py")
    mine = load_filter("my_filter:MostlyWrong")
    decided = [mine.decide(Group([1.0] * right + [0.0] * (4 - right))).reason for right in range(5)]
    assert decided == ["all_wrong", "kept", "kept", "too_easy", "all_correct"]


def test_data_source(module, tmp_path):
    source = write_jsonl(tmp_path / "r.jsonl", [{"riddle": "Legs of a cat?", "solution": "It is 4"}])
    options = Options("riddles", tmp_path / "out", input=[str(source)], progress=False)
    (path,) = prepare(options, {"riddles": module("data_prep/sources/riddles.py").build})
    assert path.name == "riddles-train.parquet"
    assert rows_of(path)[0]["reward_model"]["ground_truth"] == "4"
