"""The vLLM replica that runs on CPU cores; registered in place of `vllm`, since verl tests for that name."""

import argparse
import os
from collections.abc import AsyncIterator
from typing import Any

import ray
from verl.workers.rollout.replica import TokenOutput
from verl.workers.rollout.vllm_rollout.vllm_async_server import vLLMHttpServer, vLLMReplica
from vllm.outputs import CompletionOutput, RequestOutput
from vllm.sampling_params import RequestOutputKind


class CPUHttpServer(vLLMHttpServer):
    """verl's vLLM server with the CPU worker extension and requests for whole groups.

    The engine gets all but one of the threads of a trainer: verl's agent loop, reward and queue need a core meanwhile.
    """

    def __init__(self, *args, **kwargs):
        """Take verl's arguments; the engine's processes inherit the environment."""
        os.environ["OMP_NUM_THREADS"] = str(max(1, int(os.environ.get("OMP_NUM_THREADS", "1")) - 1))
        super().__init__(*args, **kwargs)

    def _get_worker_extension_cls(self) -> str:
        return "recipe.cpu.worker.CPUWorkerExtension"

    async def run_server(self, args: argparse.Namespace) -> None:
        """Start verl's server, then listen in on what its engine returns."""
        await super().run_server(args)
        self.engine: Any = _Engine(self.engine)

    async def abort_all_requests(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """As verl's, without its wait of up to a minute for group requests.

        verl takes a request for admitted at its first output, which a group's is also its last.
        """
        states = self.engine.output_processor.request_states
        held = sum(any(state.endswith(request_id) for state in states) for request_id in self.engine.finals)
        self._admitting -= held
        try:
            return await super().abort_all_requests(*args, **kwargs)
        finally:
            self._admitting += held

    async def generate_group(
        self, prompt_ids: list[int], sampling_params: dict[str, Any], request_id: str, n: int
    ) -> list[TokenOutput]:
        """Sample one prompt n times in one request of the engine; verl's `generate` returns the first of them.

        Raises:
            RuntimeError: the request was aborted; its samples are worth nothing.
        """
        # token ids and their log probabilities are all that training reads: no text, no dictionary a token
        group = {"n": n, "output_kind": RequestOutputKind.FINAL_ONLY, "flat_logprobs": True, "detokenize": False}
        self.engine.finals[request_id] = None
        try:
            first = await self.generate(prompt_ids, sampling_params | group, request_id)
        finally:
            final = self.engine.finals.pop(request_id)
        samples = [] if final is None else final.outputs
        if len(samples) != n or any(sample.finish_reason == "abort" for sample in samples):
            raise RuntimeError(f"request {request_id} was aborted with {len(samples)} of {n} samples")
        steps = dict.fromkeys(("min_global_steps", "max_global_steps"), first.extra_fields["global_steps"])
        return [
            TokenOutput(
                token_ids=list(sample.token_ids),
                log_probs=_log_probs(sample),
                stop_reason=first.stop_reason,
                num_preempted=first.num_preempted,
                extra_fields={**first.extra_fields, **steps},
            )
            for sample in samples
        ]


class CPUReplica(vLLMReplica):
    """A replica whose servers are `CPUHttpServer`."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.server_class = ray.remote(CPUHttpServer)


class _Engine:
    """vLLM's engine, remembering the last output of each request in `finals`."""

    def __init__(self, engine: Any):
        self._engine = engine
        self.finals: dict[str, RequestOutput | None] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def generate(self, *, request_id: str, **kwargs: Any) -> AsyncIterator[RequestOutput]:
        async for output in self._engine.generate(request_id=request_id, **kwargs):
            if request_id in self.finals:
                self.finals[request_id] = output
            yield output


def _log_probs(sample: CompletionOutput) -> list[float] | None:
    """Log probability of each sampled token; with `logprobs=0` the engine returns nothing else."""
    return None if sample.logprobs is None else list(sample.logprobs.logprobs)  # type: ignore[union-attr]
