"""vLLM's CPU worker, whose ranks meet through a file instead of a port."""

from vllm.v1.worker.cpu_worker import CPUWorker

from eval.loopback import init_method


class LoopbackWorker(CPUWorker):
    """`CPUWorker` that opens no port beyond loopback."""

    def __init__(self, *, distributed_init_method: str, **kwargs):
        """Take vLLM's arguments."""
        super().__init__(distributed_init_method=init_method(distributed_init_method), **kwargs)
