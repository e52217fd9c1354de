"""Options of the evaluation server: the `key=value` words of `serve run` become vLLM's own arguments.

No Ray and no vLLM here; the parser comes as an argument.
"""

import argparse
import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eval.loopback import LOOPBACK
from recipe.loopback import is_loopback
from reward.secrets import names_secret

NUM_REPLICAS = "num-replicas"
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")
# Options of `vllm serve` about its own process and socket: here both are Ray Serve's.
_NOT_HERE = {
    "api-server-count", "config", "data-parallel-external-lb", "data-parallel-hybrid-lb",
    "data-parallel-multi-port-external-lb", "disable-uvicorn-access-log", "enable-ssl-refresh", "grpc", "headless",
    "help", "root-path", "ssl-ca-certs", "ssl-cert-reqs", "ssl-certfile", "ssl-ciphers", "ssl-keyfile", "uds",
    "uvicorn-log-level",
}  # fmt: skip


@dataclass(frozen=True)
class ServerOptions:
    """What is served and where.

    `engine`: vLLM's parsed arguments; `given`: the options that were typed. `replicas`: None for as many as the GPUs
    allow. `api_keys`: any of them opens the server; none: it is open, and `host` is a loopback address.
    """

    engine: argparse.Namespace
    given: frozenset[str]
    replicas: int | None
    host: str
    port: int
    api_keys: tuple[str, ...]


def read_options(options: Mapping[str, str], parser: argparse.ArgumentParser) -> ServerOptions:
    """Parse the words of `serve run`; `parser` is that of `vllm serve`, made with `exit_on_error=False`.

    An API key may also come from VLLM_API_KEY, where no process list shows it.

    Raises:
        ValueError: an option is unknown, belongs to another server or has a bad value, the model is missing, or an
            address beyond this machine has no key.
    """
    options = {_dashed(key): str(value) for key, value in options.items()}
    if not options.get("model"):
        raise ValueError("model is missing: serve run eval.llm:build_app model=FOLDER_OR_HUB_NAME")
    replicas = _count(options.pop(NUM_REPLICAS, None))
    keys = options.pop("api-key", "").split()  # not the parser's: it would print one that begins with a dash
    try:
        engine = parser.parse_args(to_words(options, parser))
    except argparse.ArgumentError as error:
        raise ValueError(f"{error}; python -m vllm.entrypoints.openai.api_server --help lists the values") from error
    engine.model, names = model_and_names(engine.model)
    engine.served_model_name = engine.served_model_name or names
    engine.api_key = [key for key in keys or [os.environ.get("VLLM_API_KEY", "")] if key]
    host = engine.host or LOOPBACK
    if not engine.api_key and not is_loopback(host):
        raise ValueError(
            f"host={host} opens the server beyond this machine to everybody: give it a key (api-key=... or the "
            f"environment's VLLM_API_KEY), or leave host at {LOOPBACK}"
        )
    return ServerOptions(engine, frozenset(options), replicas, host, engine.port, tuple(engine.api_key))


def to_words(options: Mapping[str, str], parser: argparse.ArgumentParser) -> list[str]:
    """Command-line words for `parser`: a switch takes true or false, a list is split at spaces, else `--key=value`.

    Raises:
        ValueError: an option is unknown or not for this server.
    """
    actions = {flag: action for action in parser._actions for flag in action.option_strings}
    words: list[str] = []
    for key, value in options.items():
        flag, name = f"--{key}", key.split(".")[0].rstrip("+")
        action = actions.get(f"--{name}")
        if name in _NOT_HERE:
            raise ValueError(
                f"{_shown(key, value)} is about vLLM's own server process and has no meaning here: leave it out"
            )
        if action is None:
            raise ValueError(_unknown(key, value, actions))
        if action.nargs == 0:
            words += _switch(key, value, actions)
        elif action.nargs in ("+", "*") and not value.startswith(("{", "[")):
            words += [flag, *value.split()]
        else:
            words.append(f"{flag}={value}")
    return words


def model_and_names(model: str) -> tuple[str, list[str]]:
    """Where vLLM finds the model, and the names it is served under.

    A folder is served under its full path, the path as typed and its last part; a name of the Hub under itself.

    Raises:
        ValueError: `model` is neither a model folder, nor a file, nor the form of a Hub name or of an address.
    """
    path = Path(os.path.abspath(os.path.expanduser(model)))  # no resolve(): a link's own name is what was typed
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ValueError(f"model={model} is a folder without config.json: name a Hugging Face model folder")
        return str(path), list(dict.fromkeys([str(path), path.name, model]))
    if path.is_file():
        return str(path), list(dict.fromkeys([str(path), path.name, model]))
    if "://" not in model and (model.count("/") > 1 or model.startswith(("/", ".", "~"))):
        raise ValueError(f"model={model} does not exist (looked for {path}), and it is no name of the Hub")
    return model, [model]


def replicas_on(gpus_of_nodes: Sequence[float], each: int) -> int:
    """How many replicas of `each` GPUs the nodes hold; one replica does not span nodes.

    Raises:
        ValueError: there is no node that holds one.
    """
    count = sum(int(gpus) // each for gpus in gpus_of_nodes)
    if count == 0:
        have = ", ".join(f"{gpus:g}" for gpus in gpus_of_nodes) or "no node"
        raise ValueError(
            f"a replica needs {each} GPUs of one node (tensor-parallel-size x pipeline-parallel-size x "
            f"data-parallel-size); the nodes have: {have}. Lower tensor-parallel-size"
        )
    return count


def _dashed(key: str) -> str:
    """`hf_overrides.rope_theta` is the key `rope_theta` of `hf-overrides`."""
    head, dot, rest = key.partition(".")
    return head.replace("_", "-") + dot + rest


def _count(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{NUM_REPLICAS}={text} is not a whole number above 0")
    return int(text)


def _switch(key: str, value: str, actions: Mapping[str, argparse.Action]) -> list[str]:
    if value.lower() in _TRUE:
        return [f"--{key}"]
    if value.lower() not in _FALSE:
        raise ValueError(f"{_shown(key, value)} is a switch: true or false")
    return [f"--no-{key}"] if f"--no-{key}" in actions else []


def _unknown(key: str, value: str, actions: Mapping[str, argparse.Action]) -> str:
    known = [flag.removeprefix("--") for flag in actions if flag.startswith("--")]
    near = difflib.get_close_matches(key, [*known, NUM_REPLICAS], n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    said = key if any(map(names_secret, near)) else _shown(key, value)
    return f"{said} is no option of `vllm serve`, nor {NUM_REPLICAS}{hint}"


def _shown(key: str, value: str) -> str:
    """`key=value` for a message, without the value where the key is named like a secret."""
    return key if names_secret(key) else f"{key}={value}"
