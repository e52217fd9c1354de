"""Forked workers for a server on CPU cores: all of Ray Serve's processes and the engine start in a moment."""

import atexit
import os
import shutil
from contextlib import ExitStack

from eval.vllm_build import built_for_cpu
from recipe.cpu.environment import ENGINE
from recipe.cpu.prefork import prefork
from recipe.scratch import new_folder

EARLY = ("torch", "transformers", "fastapi", "vllm.v1.core.sched.scheduler", "vllm.v1.worker.cpu_model_runner")
LATE = (
    "ray.serve",
    "ray.serve._private.controller",
    "ray.serve._private.proxy",
    "ray.serve._private.replica",
    "vllm.entrypoints.openai.api_server",
    "eval.cpu_worker",
    "eval.llm",
)


def worker_executable(options: dict[str, str]) -> str | None:
    """What runs the workers of a server with these options, until this process ends; None: a plain python.

    On an accelerator a fork is not to be had, and a model that is compiled wants another environment.
    """
    eager = {name.replace("_", "-"): value for name, value in options.items()}.get("enforce-eager", "true")
    if not built_for_cpu() or eager.lower() not in ("", "1", "true"):
        return None
    os.environ.setdefault("TORCHDYNAMO_DISABLE", ENGINE["TORCHDYNAMO_DISABLE"])  # torch reads it when imported
    until_the_end = ExitStack()
    atexit.register(until_the_end.close)
    folder = new_folder()
    until_the_end.callback(shutil.rmtree, folder, ignore_errors=True)
    return until_the_end.enter_context(prefork(folder, {}, EARLY, LATE))
