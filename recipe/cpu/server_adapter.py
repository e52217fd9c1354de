"""The trainer's side of an engine on CPU cores; registered in place of verl's for `vllm`."""

from typing import Any

import zmq
from verl.workers.rollout.vllm_rollout import ServerAdapter

from recipe.cpu import patches
from recipe.cpu.weight_socket import WAIT_S, own_socket

patches.weight_sender()


class CPUServerAdapter(ServerAdapter):
    """verl's adapter, which sends weights through a socket of this run, and not for ever."""

    zmq_handle: str

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.zmq_handle = own_socket(self.zmq_handle)

    async def update_weights(self, *args: Any, **kwargs: Any) -> None:
        """As verl's.

        Raises:
            RuntimeError: the engine has not taken the weights in time.
        """
        try:
            await super().update_weights(*args, **kwargs)
        except zmq.Again as error:
            raise RuntimeError(
                f"the rollout engine has not taken new weights for {WAIT_S:.0f} s: it has died, or hangs"
            ) from error
