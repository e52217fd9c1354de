"""Rules on the model's folder."""

import http.server
import json
import threading
import typing

import pytest
from huggingface_hub import constants

from recipe.preflight import (
    check_model,
    check_recipe,
    preflight,
)
from recipe.preflight.model_facts import model_facts
from recipe.preflight.own_code import _look_at_hub
from tests.recipe.inputs import write_model
from tests.recipe.variants import variant


def test_model_is_read_without_transformers(tmp_path):
    config = variant(f"actor_rollout_ref.model.path={write_model(tmp_path / 'm')}")
    facts = model_facts(config)
    assert (facts.layers, facts.heads, facts.kv_heads, facts.head_dim, facts.parameters) == (2, 4, 2, 16, 11)
    assert facts.eos_tokenizer == facts.eos_config == facts.eos_generation == {2}
    assert check_recipe(config) == []
    assert check_model(config) == []


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"tokenizer_eos": 7}, "the tokenizer ends a text with id 7, generation_config.json with [2]"),
        ({"tokenizer_eos": 7, "generation_eos": None}, "the tokenizer ends a text with id 7, config.json with [2]"),
        ({"generation_eos": [8, 9]}, "generation_config.json with [8, 9]"),
        ({"max_position_embeddings": 64}, "max_position_embeddings=64"),
    ],
)
def test_57_and_15_model_files_that_disagree(tmp_path, files, message):
    config = variant(f"actor_rollout_ref.model.path={write_model(tmp_path / 'm', **files)}")
    assert any(message in problem for problem in check_recipe(config))


def test_several_end_tokens_agree_when_one_is_the_tokenizers(tmp_path):
    folder = write_model(tmp_path / "m", generation_eos=[1, 2])
    assert check_recipe(variant(f"actor_rollout_ref.model.path={folder}")) == []


def test_a_model_that_ends_with_its_tokenizers_token_may_name_another_in_its_configuration(tmp_path):
    """The three of Qwen3.5-4B, whose config.json nests its decoder."""
    folder = write_model(
        tmp_path / "m",
        eos=None,
        generation_eos=[248046, 248044],
        tokenizer_eos=248046,
        text_config={"eos_token_id": 248044},
    )
    whole = json.loads((folder / "config.json").read_text())
    whole["text_config"] |= {key: value for key, value in whole.items() if key not in ("text_config", "eos_token_id")}
    (folder / "config.json").write_text(json.dumps({"text_config": whole["text_config"]}))
    config = variant(f"actor_rollout_ref.model.path={folder}")
    facts = model_facts(config)
    assert (facts.eos_config, facts.eos_tokenizer) == ({248044}, {248046})
    assert check_recipe(config) == []


def test_parameters_of_a_plain_model_are_those_that_transformers_counts(tmp_path):
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    shape = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = Qwen2Config(vocab_size=300, intermediate_size=128, tie_word_embeddings=False, **shape)
    with torch.device("meta"):
        counted = sum(p.numel() for p in Qwen2ForCausalLM(config).parameters())
    config.save_pretrained(tmp_path)
    assert model_facts(variant(f"actor_rollout_ref.model.path={tmp_path}")).parameters == counted


def test_published_sizes_are_the_published_ones():
    names = {
        "Qwen/Qwen2.5-32B": 32.8,
        "Qwen/Qwen2.5-Math-7B": 7.62,
        "Qwen/Qwen2.5-0.5B": 0.49,
        "Qwen/Qwen3-4B-Base": 4.0,
    }
    for name, billions in names.items():
        facts = model_facts(variant(f"actor_rollout_ref.model.path={name}"))
        assert facts.parameters / 1e9 == pytest.approx(billions, rel=0.02)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_model_with_code_of_its_own_needs_an_explicit_key(tmp_path, name):
    folder = write_model(tmp_path / "m")
    path = f"actor_rollout_ref.model.path={folder}"
    assert check_model(variant(path)) == []
    content = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps(content | {"auto_map": {"AutoTokenizer": ["code.Tokenizer", None]}}))
    (found,) = check_model(variant(path))
    assert f"{folder / name} names Python code of the model's own" in found
    assert check_model(variant(path, "actor_rollout_ref.model.trust_remote_code=true")) == []


def test_folder_that_is_no_model(tmp_path):
    config = variant(f"actor_rollout_ref.model.path={tmp_path}")
    assert "no config.json" in check_model(config)[0]


def test_file_of_a_model_is_no_folder(tmp_path):
    (tmp_path / "model.safetensors").touch()
    (found,) = check_model(variant(f"actor_rollout_ref.model.path={tmp_path}/model.safetensors"))
    assert f"model.safetensors is a file: give the model folder, {tmp_path} perhaps" in found


def test_truncated_weights_are_named(tmp_path):
    folder = write_model(tmp_path / "m")
    (folder / "model.safetensors").write_bytes(b"\x10\0\0")
    config = variant(f"actor_rollout_ref.model.path={folder}")
    assert "model.safetensors is no safetensors file" in check_model(config)[0]
    assert check_recipe(config) == []  # nothing wrong with the recipe itself


class Hub(http.server.BaseHTTPRequestHandler):
    """Answers as the Hub does: two models, one of which brings a tokenizer with code."""

    files: typing.ClassVar = {
        "/org/plain/resolve/main/config.json": {"model_type": "qwen2"},
        "/org/plain/resolve/main/tokenizer_config.json": {},
        "/org/code/resolve/main/tokenizer_config.json": {"auto_map": {"AutoTokenizer": ["code.Tokenizer", None]}},
    }

    def do_GET(self):
        content = self.files.get(self.path)
        self.send_response(404 if content is None else 200)
        if content is None:
            known = self.path.startswith(("/org/plain/", "/org/code/"))
            self.send_header("X-Error-Code", "EntryNotFound" if known else "RepoNotFound")
        self.end_headers()
        self.wfile.write(b"" if content is None else json.dumps(content).encode())

    def log_message(self, *words):
        pass


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A Hub on loopback and an empty cache; returns its address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}")
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        _look_at_hub.cache_clear()
        yield url
        server.shutdown()
    _look_at_hub.cache_clear()


@pytest.mark.parametrize("key", ["path", "tokenizer_path"])
def test_hub_model_with_code_of_its_own_needs_an_explicit_key(hub, tmp_path, key):
    def found(name, *more):
        path = "actor_rollout_ref.model.path=org/plain"
        return check_model(variant(path, f"actor_rollout_ref.model.{key}={name}", *more))

    assert found("org/plain") == []
    (problem,) = found("org/code")
    assert f"{hub}/org/code/resolve/main/tokenizer_config.json names Python code" in problem
    assert found("org/code", "actor_rollout_ref.model.trust_remote_code=true") == []
    (problem,) = found("org/none")
    assert f"actor_rollout_ref.model.{key}=org/none is no folder here, and on the Hub it is not there" in problem
    assert f"{key}=org/no:name is no folder here, nor a name of the Hub" in found("org/no:name")[0]
    assert not (tmp_path / "cache").exists()


def test_hub_model_that_cannot_be_looked_at_is_a_note(monkeypatch, tmp_path):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    _look_at_hub.cache_clear()
    config, said = variant("actor_rollout_ref.model.path=org/code"), "org/code was not looked at for code of its own"
    assert check_model(config) == []
    assert sum(said in note for note in preflight(config).notes) == 1
    assert not any(said in note for note in preflight(config, recipe_only=True).notes)
    # What is in the cache is looked at, as verl would take it from there.
    snapshot = tmp_path / "models--org--code" / "snapshots" / "main"
    snapshot.mkdir(parents=True)
    (snapshot / "tokenizer_config.json").write_text('{"auto_map": {}}')
    _look_at_hub.cache_clear()
    assert f"{snapshot / 'tokenizer_config.json'} names Python code" in check_model(config)[0]
    assert not any(said in note for note in preflight(config).notes)


def test_an_embedding_that_no_weight_bucket_holds(tmp_path):
    """SmolLM2's 49,152 x 576 float32 numbers are 108 MiB; verl asserts it once training has begun."""
    folder = write_model(
        tmp_path / "m", vocab_size=49152, hidden_size=576, num_attention_heads=9, num_key_value_heads=3
    )
    key = "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes"
    path = f"actor_rollout_ref.model.path={folder}"
    assert check_recipe(variant(path, f"{key}=108")) == []
    (found,) = check_recipe(variant(path, f"{key}=107"))
    assert found.startswith(f"{key}=107")
    assert "needs 108" in found
    assert not any(key in problem for problem in check_recipe(variant(path, f"{key}=107", "cluster=single_node")))
