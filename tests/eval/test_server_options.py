"""Options of the server, parsed with a small parser that has one option of each kind that vLLM's has."""

import argparse

import pytest

from eval.server_options import model_and_names, read_options, replicas_on
from recipe.loopback import is_loopback


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.delenv("VLLM_API_KEY", raising=False)


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "aaa" / "global_step_20"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return folder


def parser():
    made = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    made.add_argument("--model")
    made.add_argument("--host")
    made.add_argument("--port", type=int, default=8000)
    made.add_argument("--api-key", nargs="+")
    made.add_argument("--served-model-name", nargs="+")
    made.add_argument("--lora-modules", nargs="+")
    made.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
    made.add_argument("--enforce-eager", action=argparse.BooleanOptionalAction, default=False)
    made.add_argument("--enable-prefix-caching", action=argparse.BooleanOptionalAction, default=None)
    made.add_argument("--disable-log-stats", action="store_true")
    made.add_argument("--uds")
    return made


def read(**options):
    return read_options({key.replace("_", "-"): value for key, value in options.items()}, parser())


def test_a_folder_is_served_under_its_full_path_and_its_last_name(model, monkeypatch):
    monkeypatch.chdir(model.parents[1])
    for typed in (str(model), f"{model}/"):
        assert read(model=typed).engine.served_model_name[:2] == [str(model), "global_step_20"]
    settings = read(model="aaa/global_step_20", tensor_parallel_size="1")
    assert settings.engine.model == str(model)
    assert settings.engine.served_model_name == [str(model), "global_step_20", "aaa/global_step_20"]
    assert read(model="Qwen/Qwen3-4B").engine.served_model_name == ["Qwen/Qwen3-4B"]
    assert read(model=str(model), served_model_name="a b").engine.served_model_name == ["a", "b"]


def test_a_link_keeps_the_name_that_was_typed(model, tmp_path):
    (tmp_path / "latest").symlink_to(model)
    assert model_and_names(str(tmp_path / "latest")) == (str(tmp_path / "latest"), [str(tmp_path / "latest"), "latest"])


@pytest.mark.parametrize("typed", ["aaa/bbb/ccc", "/nowhere/at/all", "./ccc", "../ccc"])
def test_a_path_that_is_not_there_is_refused(typed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=f"model={typed} does not exist"):
        read(model=typed)


def test_a_folder_that_is_no_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"without config\.json"):
        read(model=str(tmp_path))


def test_values_switches_and_lists_reach_the_engine(model):
    settings = read(
        model=str(model), tensor_parallel_size="4", enforce_eager="true", enable_prefix_caching="False",
        disable_log_stats="false", lora_modules='{"name": "a", "path": "b c"}', num_replicas="2",
    )  # fmt: skip
    engine = settings.engine
    assert (engine.tensor_parallel_size, engine.enforce_eager, engine.enable_prefix_caching) == (4, True, False)
    assert engine.disable_log_stats is False
    assert engine.lora_modules == ['{"name": "a", "path": "b c"}']
    assert settings.replicas == 2
    assert {"enforce-eager", "tensor-parallel-size"} < settings.given
    assert read(model=str(model)).replicas is None


def test_underscores_are_taken_for_dashes(model):
    assert read_options({"model": str(model), "tensor_parallel_size": "2"}, parser()).engine.tensor_parallel_size == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "model is missing"),
        ({"tensor_paralel_size": "2"}, r"tensor-paralel-size=2 is no option.*tensor-parallel-size"),
        ({"num_replica": "2"}, "num-replica=2 is no option.*did you mean num-replicas"),
        ({"tensor_parallel_size": "two"}, "tensor-parallel-size.*'two'"),
        ({"enforce_eager": "maybe"}, "enforce-eager=maybe is a switch"),
        ({"num_replicas": "0"}, "num-replicas=0"),
        ({"num_replicas": "-1"}, "num-replicas=-1"),
        ({"uds": "/tmp/socket"}, "uds=/tmp/socket.*no meaning here"),
    ],
)
def test_what_cannot_work_is_refused_by_name_and_value(options, message, model):
    with pytest.raises(ValueError, match=message):
        read(**({"model": str(model)} if options else {}), **options)


@pytest.mark.parametrize(
    "key", ["api-keys", "api_keys", "api-kye", "hf-token", "uds.api-key", "enforce-eager.password"]
)
def test_a_refusal_does_not_repeat_a_secret(key, model):
    with pytest.raises(ValueError, match=key.replace("_", "-")) as refused:
        read_options({"model": str(model), key: "K-7"}, parser())
    assert "K-7" not in str(refused.value)


@pytest.mark.parametrize("value", ["-K-7", "K-1 -K-7"])
def test_a_key_may_begin_with_a_dash(value, model):
    assert read(model=str(model), api_key=value).api_keys == tuple(value.split())


def test_beyond_loopback_only_with_a_key(model, monkeypatch):
    assert (read(model=str(model)).host, read(model=str(model)).api_keys) == ("127.0.0.1", ())
    for host in ("0.0.0.0", "::", "10.0.0.1", "example.org"):
        with pytest.raises(ValueError, match=f"host={host} opens the server"):
            read(model=str(model), host=host)
    for host in ("127.0.0.1", "127.0.0.2", "::1", "localhost"):
        assert read(model=str(model), host=host).host == host
    settings = read(model=str(model), host="0.0.0.0", api_key="secret")
    assert (settings.host, settings.api_keys) == ("0.0.0.0", ("secret",))
    monkeypatch.setenv("VLLM_API_KEY", "of the environment")
    assert read(model=str(model), host="0.0.0.0").api_keys == ("of the environment",)
    assert is_loopback("::ffff:127.0.0.1")  # as a list of sockets names it
    assert not is_loopback("::ffff:10.0.0.1")
    assert not is_loopback("")


def test_replicas_do_not_span_nodes():
    assert replicas_on([8.0, 8.0], 8) == 2
    assert replicas_on([8.0, 4.0], 2) == 6
    assert replicas_on([4.0, 4.0, 0.0], 3) == 2
    for nodes in ([4.0, 4.0], [0.0], []):
        with pytest.raises(ValueError, match="needs 8 GPUs of one node"):
            replicas_on(nodes, 8)
