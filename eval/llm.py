"""OpenAI-compatible server of a model: vLLM's own app in Ray Serve replicas, on GPUs or, without any, on CPU cores.

    serve run eval.llm:build_app model=PATH tensor-parallel-size=N [key=value ...]

The words are `num-replicas=N` (by default as many as the GPUs allow) and the options of `vllm serve`. Without an API
key (`api-key=KEY` or VLLM_API_KEY) everything listens on loopback only; with one, `host=0.0.0.0` opens it, and all but
`/health` asks for the key. `/health` answers 200 once the engine is up.

`ray.serve.llm` of the pinned Ray runs with the pinned vLLM too, but serves one name a model, knows no API key and no
`/health`, and takes two processes with vLLM in them before the engine's own: so this is a deployment around vLLM's app.
"""

import argparse
import os
import shlex
import socket
import tempfile
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

import click
import ray
from ray import serve
from ray._private import services
from ray.dashboard.modules.dashboard_sdk import parse_runtime_env_args
from ray.serve import Application
from ray.serve.context import _get_global_client

from eval.forked import worker_executable
from eval.loopback import LOOPBACK, STORE, bind_replica_to_loopback, start_ray_on_loopback
from eval.server_options import ServerOptions, read_options, replicas_on
from eval.vllm_build import built_for_cpu, vllm_version
from recipe.cpu.environment import ENGINE
from recipe.cpu.prefork import suits
from recipe.loopback import is_loopback

VLLM = "0.24"  # whose app this file was written for
_NAMESPACE = "serve"
_FROM_VLLM = ("build_app", "build_async_engine_client", "init_app_state")
_PLAIN = f"plain `vllm serve MODEL --host {LOOPBACK}` has the same API"


class Refused(click.ClickException, ValueError):
    """Options that cannot work: one line under `serve run`, a ValueError elsewhere."""


class VLLMServer:
    """One replica: an engine and vLLM's app around it.

    Ray Serve asks for the app after the constructor, and sends requests once it is there.
    """

    def __init__(self, engine: argparse.Namespace, api_keys: tuple[str, ...]):
        self._arguments, self._api_keys = engine, api_keys
        self._open = AsyncExitStack()
        bind_replica_to_loopback()

    async def __serve_build_asgi_app__(self) -> Any:
        """Start the engine and return the app; Ray Serve calls it once."""
        from vllm.entrypoints.openai.api_server import build_app, build_async_engine_client, init_app_state

        from eval.server_key import RequireKey

        os.environ[STORE] = self._open.enter_context(tempfile.TemporaryDirectory())
        self._engine = await self._open.enter_async_context(build_async_engine_client(self._arguments))
        tasks = await self._engine.get_supported_tasks()
        if self._api_keys:
            RequireKey.keys = self._api_keys
            self._arguments.middleware = [*self._arguments.middleware, "eval.server_key.RequireKey"]
        app = build_app(self._arguments, tasks, self._engine.model_config)
        await init_app_state(self._engine, app.state, self._arguments, tasks)
        app.state.server = SimpleNamespace(should_exit=False)  # which vLLM ends with its engine; here check_health does
        return app

    async def check_health(self) -> None:
        """Raise when the engine is dead: Ray Serve then starts another replica."""
        await self._engine.check_health()

    async def __del__(self) -> None:
        """End the engine's processes."""
        await self._open.aclose()


def build_app(options: dict[str, str]) -> Application:
    """The Ray Serve application of `options`, the `key=value` words after `serve run eval.llm:build_app`.

    Starts Ray where there is none, on loopback, and Ray Serve at `host` and `port`.

    Raises:
        Refused: an option is unknown or wrong, the model is missing, the GPUs do not suffice, or Ray Serve already
            listens where this server may not.
    """
    try:
        address, runtime_env = _cluster()
        if address is None and suits(runtime_env) and (python := worker_executable(options)) is not None:
            runtime_env["py_executable"] = shlex.quote(python)  # imports while this process does
        settings = read_options(options, _vllm_parser())
        _check_hub(settings.engine)
        _join_ray(address, runtime_env)
        replicas, actor = _resources(settings)
        _start_serve(settings)
    except ValueError as error:
        raise Refused(str(error)) from error
    deployment = serve.deployment(
        serve.ingress()(VLLMServer),
        name="vllm",
        num_replicas=replicas,
        ray_actor_options=actor,
        max_ongoing_requests=100_000,  # the engine queues; Ray Serve's default of 5 would starve it
        max_constructor_retry_count=1,  # what kills an engine at its start kills the next one as well
        health_check_timeout_s=120,
        graceful_shutdown_timeout_s=5,
        graceful_shutdown_wait_loop_s=0.2,  # between two looks whether requests are running
        logging_config={"enable_access_log": False},
    )
    return deployment.bind(settings.engine, settings.api_keys)


def _vllm_parser() -> argparse.ArgumentParser:
    try:
        import vllm.entrypoints.openai.api_server as app_of_vllm
        from vllm.entrypoints.openai.cli_args import make_arg_parser
        from vllm.utils.argparse_utils import FlexibleArgumentParser
    except ImportError as error:
        raise ValueError(f"needs vLLM {VLLM}, have {vllm_version()} ({error}); {_PLAIN}") from error
    if missing := [name for name in _FROM_VLLM if not hasattr(app_of_vllm, name)]:
        raise ValueError(f"needs vLLM {VLLM}, have {vllm_version()} (without {', '.join(missing)}); {_PLAIN}")
    return make_arg_parser(FlexibleArgumentParser(allow_abbrev=False, exit_on_error=False))


def _check_hub(engine: argparse.Namespace) -> None:
    """See that a model that is named, not a path, can be had."""
    if os.path.exists(engine.model) or "://" in engine.model:
        return
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        hf_hub_download(engine.model, "config.json", revision=engine.revision, token=engine.hf_token)
    except LocalEntryNotFoundError as error:
        raise ValueError(f"model={engine.model} is no folder here, and the Hub was not reached: {error}") from error
    except EntryNotFoundError:  # the repository is there, in a layout without config.json: vLLM's to judge
        return
    except (OSError, ValueError) as error:
        raise ValueError(f"model={engine.model} is no folder here, nor found on the Hub: {error}") from error


def _cluster() -> tuple[str | None, dict[str, Any]]:
    """Address of the Ray that `serve run` would join, None where there is none, and its runtime environment."""
    context = click.get_current_context(silent=True)
    given = context.params if context else {}
    runtime_env = parse_runtime_env_args(
        runtime_env=given.get("runtime_env"),
        runtime_env_json=given.get("runtime_env_json"),
        working_dir=given.get("working_dir"),
    )
    if ray.is_initialized():
        return ray.get_runtime_context().gcs_address, runtime_env
    address = given.get("address")
    joins = services.canonicalize_bootstrap_address(address) is not None
    return (address or "auto") if joins else None, runtime_env


def _join_ray(address: str | None, runtime_env: dict[str, Any]) -> None:
    """Join that Ray, or start one that nobody else reaches."""
    if ray.is_initialized():
        return
    if address is not None:
        ray.init(address=address, namespace=_NAMESPACE, runtime_env=runtime_env)
        return
    start_ray_on_loopback()
    ray.init(
        address="local",
        namespace=_NAMESPACE,
        runtime_env=runtime_env,
        include_dashboard=False,
        _node_ip_address=LOOPBACK,
    )


def _resources(settings: ServerOptions) -> tuple[int, dict[str, Any]]:
    """Number of replicas, and what Ray reserves and sets for each."""
    variables = {"VLLM_HOST_IP": LOOPBACK}  # one engine is on one node
    if built_for_cpu():
        replicas, reserved = settings.replicas or 1, {"num_cpus": 1.0}
        variables |= _run_on_cpu(settings)
    else:
        replicas, reserved = _on_gpus(settings)
    variables = {key: os.environ.get(key, value) for key, value in variables.items()}
    return replicas, {**reserved, "runtime_env": {"env_vars": variables}}


def _on_gpus(settings: ServerOptions) -> tuple[int, dict[str, float]]:
    engine = settings.engine
    each = engine.tensor_parallel_size * engine.pipeline_parallel_size * (engine.data_parallel_size or 1)
    fit = replicas_on([node["Resources"].get("GPU", 0.0) for node in ray.nodes() if node["Alive"]], each)
    if (settings.replicas or 0) > fit:
        raise ValueError(f"num-replicas={settings.replicas} of {each} GPUs do not fit: there is room for {fit}")
    if each > 1 and engine.distributed_executor_backend is None:
        engine.distributed_executor_backend = "mp"  # all on one node, below the replica
    return settings.replicas or fit, {"num_gpus": float(each)}


def _run_on_cpu(settings: ServerOptions) -> dict[str, str]:
    """Settle how the engine runs on CPU cores; return the environment it needs."""
    engine = settings.engine
    variables = {
        "VLLM_CPU_KVCACHE_SPACE": ENGINE["VLLM_CPU_KVCACHE_SPACE"],
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": str(os.cpu_count() or 1),  # Ray would set 1
        "GLOO_SOCKET_IFNAME": "lo",
    }
    if engine.tensor_parallel_size * engine.pipeline_parallel_size == 1 and not engine.distributed_executor_backend:
        engine.distributed_executor_backend = "uni"  # no process for the worker beside the engine's
        variables["VLLM_ENABLE_V1_MULTIPROCESSING"] = ENGINE["VLLM_ENABLE_V1_MULTIPROCESSING"]
    if "enable-chunked-prefill" not in settings.given:
        engine.enable_chunked_prefill = False  # a CPU cannot rewind a seeded request's generator: a cut prompt kills it
        tokens, length = engine.max_num_batched_tokens, engine.max_model_len
        if tokens and length and tokens < length:
            raise ValueError(f"max-num-batched-tokens={tokens} is below max-model-len={length}: a CPU cuts no prompt")
    if "block-size" not in settings.given:
        engine.block_size = 32  # tokens; a CPU's 128 is longer than many prompts, of which it would cache nothing
    if engine.worker_cls == "auto":
        engine.worker_cls = "eval.cpu_worker.LoopbackWorker"
    if "enforce-eager" not in settings.given:
        engine.enforce_eager = True  # compiling takes minutes
        variables["TORCHDYNAMO_DISABLE"] = ENGINE["TORCHDYNAMO_DISABLE"]
    return variables


def _start_serve(settings: ServerOptions) -> None:
    """Start Ray Serve at the address asked for; where it runs already, see that its address will do."""
    client = _get_global_client(raise_if_no_controller_running=False)
    if client is None:
        _check_port(settings.host, settings.port)
        serve.start(http_options={"host": settings.host, "port": settings.port})
        return
    have = client.http_config
    if have.port != settings.port:
        raise ValueError(
            f"Ray Serve runs already on this cluster, at port {have.port}: say port={have.port}, or end it with "
            "`serve shutdown`"
        )
    if not settings.api_keys and not is_loopback(have.host):
        raise ValueError(
            f"Ray Serve runs already on this cluster and listens at {have.host}, beyond this machine: give api-key=... "
            "or end it with `serve shutdown`"
        )


def _check_port(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except (OSError, OverflowError) as error:
        raise ValueError(f"port={port} cannot be had at host={host} ({error}): choose another port") from error
