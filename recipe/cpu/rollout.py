"""The vLLM replica that runs on CPU cores; registered in place of `vllm`, since verl tests for that name."""

import os

import ray
from verl.workers.rollout.vllm_rollout.vllm_async_server import vLLMHttpServer, vLLMReplica


class CPUHttpServer(vLLMHttpServer):
    """verl's vLLM server with the CPU worker extension.

    The engine gets all but one of the threads of a trainer: verl's agent loop, reward and queue need a core meanwhile.
    """

    def __init__(self, *args, **kwargs):
        """Take verl's arguments; the engine's processes inherit the environment."""
        os.environ["OMP_NUM_THREADS"] = str(max(1, int(os.environ.get("OMP_NUM_THREADS", "1")) - 1))
        super().__init__(*args, **kwargs)

    def _get_worker_extension_cls(self) -> str:
        return "recipe.cpu.worker.CPUWorkerExtension"


class CPUReplica(vLLMReplica):
    """A replica whose servers are `CPUHttpServer`."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.server_class = ray.remote(CPUHttpServer)
