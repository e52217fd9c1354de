"""The registry: a new source is one `build` function and one line; the Hub is named when it cannot be reached."""

from pathlib import Path

import httpx
import pytest

from data_prep import hub, parts
from data_prep.errors import DataError
from data_prep.options import Options
from data_prep.pipeline import prepare
from data_prep.sources import REGISTRY
from data_prep.sources.base import Source, Split, from_columns
from tests.data_prep.conftest import problems_of, rows_of, write_jsonl, zhuzilin


def build_riddles(options: Options) -> Source:
    """Return a source as a user would write it."""
    return Source(
        data_source="riddles",
        splits={"test": Split("riddles", ("*.jsonl",))},
        columns=("riddle", "solution"),
        parse=from_columns("riddle", "solution", lambda text: text.removeprefix("It is ")),
        answer_column="solution",
        repo="somebody/riddles",
    )


def test_a_new_source_is_a_function_and_a_line(tmp_path):
    source = write_jsonl(tmp_path / "r.jsonl", [{"riddle": "Legs of a cat?", "solution": "It is 4"}])
    options = Options("riddles", tmp_path / "out", input=[str(source)], progress=False)
    (path,) = prepare(options, {**REGISTRY, "riddles": build_riddles})
    assert path.name == "riddles.parquet"
    assert rows_of(path)[0]["reward_model"] == {"ground_truth": "4", "style": "rule"}
    assert rows_of(path)[0]["data_source"] == "riddles"


def test_an_unknown_source_lists_the_known_ones(tmp_path):
    with pytest.raises(DataError, match=r"source='dapo' is unknown. Use one of dapo_math_17k"):
        prepare(Options("dapo", tmp_path))


@pytest.mark.parametrize("name", REGISTRY)
def test_every_source_can_be_read_and_names_its_splits(name, tmp_path):
    source = REGISTRY[name](Options(name, tmp_path, input=["x.jsonl"] if name == "file" else []))
    assert (source.parse is None) != (source.generate is None)
    assert source.splits
    assert source.repo is None or all(split.hub_files for split in source.splits.values())


def test_the_hub_is_asked_at_a_commit_and_the_card_keeps_it(tmp_path, monkeypatch):
    """The real path but for the network: listing and download are replaced at the library's own functions."""
    import huggingface_hub

    asked = []
    local = write_jsonl(tmp_path / "cache.jsonl", zhuzilin(3))

    class Api:
        def dataset_info(self, repo, revision, timeout):
            asked.append((repo, revision))
            names = ["README.md", "dapo-math-17k.jsonl"]
            return type("Info", (), {"sha": "c0ffee", "siblings": [type("F", (), {"rfilename": n}) for n in names]})

    def download(repo, name, repo_type, revision):
        asked.append((repo, name, repo_type, revision))
        return str(local)

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    (path,) = prepare(Options("dapo_math_17k_jsonl", tmp_path / "out", revision="v1", progress=False))
    repo = "zhuzilin/dapo-math-17k"
    assert asked == [(repo, "v1"), (repo, "dapo-math-17k.jsonl", "dataset", "c0ffee")]
    assert len(problems_of(path)) == 3
    assert '"revision": "c0ffee"' in path.with_suffix(".card.json").read_text()


@pytest.mark.parametrize("error", [ConnectionError, httpx.ConnectError, httpx.ReadTimeout])
def test_without_a_network_the_message_says_what_to_do(monkeypatch, error):
    import huggingface_hub

    class Api:
        def dataset_info(self, repo, revision, timeout):
            raise error("Name or service not known")

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    with pytest.raises(DataError, match=r"zhuzilin/dapo-math-17k at 'main' cannot be read .*Give --input PATH"):
        hub.fetch("zhuzilin/dapo-math-17k", "main", ("*.jsonl",))


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        (["gsm8k_test.jsonl"], {"test": ["gsm8k_test.jsonl"]}),
        (["a.jsonl"], {"train": ["a.jsonl"]}),
        (["test=a.jsonl", "train=b.jsonl"], {"test": ["a.jsonl"], "train": ["b.jsonl"]}),
        (["train-0.parquet", "train-1.parquet"], {"train": ["train-0.parquet", "train-1.parquet"]}),
        (["latest.jsonl"], {"train": ["latest.jsonl"]}),
    ],
)
def test_an_input_finds_its_split(inputs, expected, tmp_path):
    options = Options("gsm8k", tmp_path, input=inputs)
    found = parts.resolve(options, REGISTRY["gsm8k"](options))
    assert {part.split: [str(path) for path in part.paths] for part in found} == expected
    assert all(isinstance(path, Path) for part in found for path in part.paths)


def test_a_split_the_source_has_not_is_named(tmp_path):
    options = Options("aime_2024", tmp_path, input=["train=a.parquet"])
    with pytest.raises(DataError, match="names the split 'train'"):
        parts.resolve(options, REGISTRY["aime_2024"](options))
