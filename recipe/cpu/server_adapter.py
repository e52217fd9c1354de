"""The trainer's side of an engine on CPU cores; registered in place of verl's for `vllm`."""

from verl.workers.rollout.vllm_rollout import ServerAdapter

from recipe.cpu.weight_socket import own_socket


class CPUServerAdapter(ServerAdapter):
    """verl's adapter, which sends weights through a socket of this run."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.zmq_handle = own_socket(self.zmq_handle)
