"""verl's extension of the vLLM worker, for a worker whose device is the CPU. Runs inside vLLM's worker process."""

from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension

from recipe.cpu import patches
from recipe.cpu.weight_socket import own_socket


class CPUWorkerExtension(vLLMColocateWorkerExtension):
    """Loads new weights as often as verl sends them, through a socket of this run."""

    def __new__(cls, **kwargs):
        """Patch vLLM before it opens its process group and loads the model."""
        patches.local_store()
        patches.keep_linear_weights()
        return super().__new__(cls, **kwargs)

    def _update_weights(self, weights, peft_config, base_sync_done):
        """Hand the loader clones: on a CPU `.to(device)` is a view of the shared segment that is closed next."""
        super()._update_weights([(name, tensor.clone()) for name, tensor in weights], peft_config, base_sync_done)

    def _get_zmq_handle(self) -> str:
        """The socket that `CPUServerAdapter` sends to."""
        return own_socket(super()._get_zmq_handle())
