"""One engine request, one grading call and one queue write for a whole group, where verl has one of each a sample.

On a small machine these hops, not the model, are most of a rollout. Plugged in by
`actor_rollout_ref.rollout.agent.agent_loop_manager_class`; single-turn text prompts only, anything else goes verl's
way. What it costs: the samples of a group arrive together, so the sampler cannot foresee a group from its first
answers. With long answers that is worth more than the hops, which is why a cluster keeps verl's own worker.
"""

import logging
import random
from typing import Any
from uuid import uuid4

import numpy as np
import ray
import torch
import transfer_queue as tq
from tensordict import TensorDict
from torch.nn.utils.rnn import pad_sequence
from verl.experimental.agent_loop import AgentLoopOutput
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, DictConfigWrap
from verl.protocol import DataProto
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ
from verl.utils.profiler import simple_timer
from verl.utils.tensordict_utils import list_of_dict_to_tensordict
from verl.workers.rollout.llm_server import LLMServerClient
from verl.workers.rollout.replica import TokenOutput

from recipe.agent_loop import NAME, DAPOAgentLoop
from recipe.sampling_seed import sampling_seed

logger = logging.getLogger(__name__)

# Ray refuses to subclass an actor class; this is the plain class that it wraps.
_Worker = AgentLoopWorkerTQ.__ray_metadata__.modified_class


class GroupAgentLoopWorker(_Worker):  # type: ignore[valid-type, misc]
    """verl's worker with a short cut for the n samples of a single-turn prompt."""

    def __init__(self, *args, **kwargs):
        """Take verl's arguments; one agent loop serves every prompt, since a single turn keeps no state."""
        super().__init__(*args, **kwargs)
        self._agent_loop = DAPOAgentLoop(
            trainer_config=DictConfigWrap(self.config),
            server_manager=self.llm_client,
            tokenizer=self.tokenizer,
            processor=self.processor,
            dataset_cls=self.dataset_cls,
            data_config=DictConfigWrap(self.config.data),
            hf_model_type=self.hf_model_type,
        )

    def _short_cut(self, prompt: dict) -> bool:
        """Whether this prompt is a plain single turn, sampled and rewarded as verl does by default."""
        usual = prompt["agent_name"] == NAME and not {"__rollout_n__", "__do_sample__"} & prompt.keys()
        return usual and self.processor is None and not self.distillation_enabled

    async def _run_prompt(self, prompt: dict, sampling_params: dict, trajectory: dict, trace: bool = False) -> None:
        if not self._short_cut(prompt):
            return await super()._run_prompt(prompt, sampling_params, trajectory, trace)
        validate = trajectory["validate"]
        rollout = self.config.actor_rollout_ref.rollout
        uid, partition = prompt["uid"], "val" if validate else "train"
        await tq.async_kv_put(key=uid, partition_id=partition, tag={"status": "running"})
        status = "finished"
        try:
            prompt.pop("agent_name")
            if not validate:  # a validation file may hold a prompt several times
                sampling_params = {**sampling_params, "seed": sampling_seed(uid)}
            outputs = await self._generate(prompt, sampling_params, rollout.val_kwargs.n if validate else rollout.n)
            await self._grade(outputs, prompt)
            await self._store(outputs, prompt, partition)
        except Exception:  # as verl: a group that fails is reported, and refilled by the sampler
            logger.exception("group %s failed", uid)
            status = "failure"
        await tq.async_kv_put(key=uid, partition_id=partition, tag={"status": status})

    async def _generate(self, prompt: dict, sampling_params: dict, n: int) -> list[AgentLoopOutput]:
        prompt_ids = await self._agent_loop.ct_build_initial_tokens(list(prompt["raw_prompt"]))
        limit = self.rollout_config.response_length
        timing: dict[str, float] = {}
        with simple_timer("generate_sequences", timing):
            samples = await generate_group(self.llm_client, prompt_ids, sampling_params, n)
        outputs = [
            AgentLoopOutput(
                prompt_ids=prompt_ids,
                response_ids=sample.token_ids[:limit],
                response_mask=[1] * len(sample.token_ids[:limit]),
                response_logprobs=sample.log_probs[:limit] if sample.log_probs else None,
                num_turns=2,
                metrics=AgentLoopMetrics(**timing),
                extra_fields={**sample.extra_fields, "turn_scores": [], "tool_rewards": []},
            )
            for sample in samples
        ]
        return [self._agent_loop.mark(output) for output in outputs]

    async def _grade(self, outputs: list[AgentLoopOutput], prompt: dict) -> None:
        """Have one reward worker score the group; without reward workers the trainer scores later."""
        if self.reward_loop_worker_handles is None:
            return
        prompts = torch.tensor([o.prompt_ids for o in outputs])
        responses = [torch.tensor(o.response_ids, dtype=torch.int64) for o in outputs]
        padded = pad_sequence(responses, batch_first=True)
        mask = pad_sequence([torch.ones_like(r) for r in responses], batch_first=True)
        attention_mask = torch.cat([torch.ones_like(prompts), mask], dim=1)
        tensors = {
            "prompts": prompts,
            "responses": padded,
            "input_ids": torch.cat([prompts, padded], dim=1),
            "attention_mask": attention_mask,
            "position_ids": (attention_mask.cumsum(dim=1) - 1) * attention_mask,
        }
        columns = {name: _column([value] * len(outputs)) for name, value in prompt.items()} | {
            "__num_turns__": np.array([o.num_turns for o in outputs]),
            "tool_extra_fields": _column([o.extra_fields for o in outputs]),
            "prompt_len": np.array([len(o.prompt_ids) for o in outputs]),
            "response_len": np.array([len(o.response_ids) for o in outputs]),
        }
        data = DataProto(batch=TensorDict(tensors, batch_size=len(outputs)), non_tensor_batch=columns)
        timing: dict[str, float] = {}
        with simple_timer("compute_score", timing):
            results = await random.choice(self.reward_loop_worker_handles).compute_score_batch.remote(data)
        for output, result in zip(outputs, results, strict=True):
            output.reward_score = result["reward_score"]
            output.extra_fields["reward_extra_info"] = result["reward_extra_info"]
            output.metrics.compute_score = timing["compute_score"]

    async def _store(self, outputs: list[AgentLoopOutput], prompt: dict, partition: str) -> None:
        """Write the group under verl's keys `{uid}_{session}_0`, with verl's fields and tags."""
        fields = [_fields(output, prompt, session) for session, output in enumerate(outputs)]
        await tq.async_kv_batch_put(
            keys=[f"{prompt['uid']}_{session}_0" for session in range(len(outputs))],
            fields=list_of_dict_to_tensordict(fields),
            tags=[_tag(field) for field in fields],
            partition_id=partition,
        )


class GroupAgentLoopManager(AgentLoopManagerTQ):
    """verl's manager whose workers are `GroupAgentLoopWorker`."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = ray.remote(GroupAgentLoopWorker)


async def generate_group(
    client: LLMServerClient, prompt_ids: list[int], sampling_params: dict, n: int
) -> list[TokenOutput]:
    """Ask the least busy server (one of `recipe.cpu.rollout`) for n samples of one prompt in one request."""
    request_id = uuid4().hex
    server_id, server = await client._acquire_server(request_id, prompt_ids=prompt_ids, sampling_params=sampling_params)
    try:
        return await server.generate_group.remote(prompt_ids, sampling_params, request_id, n)
    finally:
        client._release_server(server_id, request_id=request_id)


def _column(values: list) -> np.ndarray:
    """One-dimensional array of objects, lists among them."""
    column = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        column[i] = value
    return column


def _fields(output: AgentLoopOutput, prompt: dict, session: int) -> dict[str, Any]:
    fields = output.as_dict() | prompt | {"session_id": session, "multi_modal_inputs": {}}
    fields["input_ids"] = torch.cat([fields["prompts"], fields["responses"]])
    fields["position_ids"] = torch.arange(len(fields["input_ids"]))
    fields["loss_mask"] = fields["response_mask"]
    return fields


def _tag(fields: dict[str, Any]) -> dict[str, Any]:
    prompt_len, response_len = len(fields["prompts"]), len(fields["responses"])
    return {
        "status": "success",
        "prompt_len": prompt_len,
        "response_len": response_len,
        "seq_len": prompt_len + response_len,
        "global_steps": fields["global_steps"],
        "min_global_steps": fields["extra_fields"]["min_global_steps"],
        "max_global_steps": fields["extra_fields"]["max_global_steps"],
    }
