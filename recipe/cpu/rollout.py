"""The vLLM replica that runs on CPU cores; registered in place of `vllm`, since verl tests for that name."""

import ray
from verl.workers.rollout.vllm_rollout.vllm_async_server import vLLMHttpServer, vLLMReplica


class CPUHttpServer(vLLMHttpServer):
    """verl's vLLM server with the CPU worker extension."""

    def _get_worker_extension_cls(self) -> str:
        return "recipe.cpu.worker.CPUWorkerExtension"


class CPUReplica(vLLMReplica):
    """A replica whose servers are `CPUHttpServer`."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.server_class = ray.remote(CPUHttpServer)
