"""DAPO's dynamic sampling as a replay buffer of verl's V1 trainer: a thin shell over `recipe.dispatch`.

verl dispatches nothing by itself here (`recipe.trainer` leaves the first wave to the sampler): every prompt is sent
because the controller asked for it, so exactly `train_batch_size` kept groups train, or the step ends at a bound.
"""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import transfer_queue as tq
from omegaconf import OmegaConf
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from recipe.acceptance import AcceptanceEstimate
from recipe.dispatch import ABANDON, DISPATCH, END, StepController
from recipe.group_filter import Group
from recipe.sampler_settings import SamplerSettings
from recipe.sampling_metrics import GroupRecord, step_metrics

TRAIN = "train"


class DynamicSampler(ReplayBuffer):
    """Keeps groups that the filter accepts, refills the others, and explains itself in metrics and a trace."""

    def __init__(self, *, sampler_kwargs: Any, refill_fn: Any, **kwargs: Any):
        """Take verl's constructor arguments; everything of ours comes through `sampler_kwargs`."""
        plain = OmegaConf.to_container(sampler_kwargs, resolve=True)
        self.settings = SamplerSettings.from_kwargs(plain)  # type: ignore[arg-type]
        super().__init__(
            sampler_kwargs=sampler_kwargs, refill_fn=refill_fn, poll_interval=self.settings.poll_interval_s, **kwargs
        )
        self.estimate = AcceptanceEstimate()
        self.rows = 0  # prompts in the training data; the trainer sets it
        self.prompts_fetched = 0
        self._records: dict[str, GroupRecord] = {}
        self._dead: set[str] = set()

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must hold for the next run to sample as this one would have."""
        return {"estimate": self.estimate.state_dict(), "prompts_fetched": self.prompts_fetched}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self.estimate.load_state_dict(state["estimate"])
        self.prompts_fetched = int(state["prompts_fetched"])

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[KVBatchMeta, dict]:
        """Return the keys of `batch_size` kept groups and the metrics of the step; validation goes verl's way.

        Raises:
            SamplingExhausted: a bound was reached under `on_exhausted=error`; the message has the counts.
        """
        if partition_id != TRAIN:
            return super().sample(global_steps, partition_id, batch_size)
        if self.rows == 0:
            raise RuntimeError("DynamicSampler.rows is not set: use trainer.v1.trainer_mode=dapo (recipe.trainer)")
        self._records = {}
        controller = self.settings.controller(self.estimate, self.rows, time.monotonic())
        outcome = self._run(controller)
        controller.close()
        ledger = controller.ledger
        selected = ledger.selected()
        self._clear_groups(TRAIN, set(ledger.surplus()))
        metrics = step_metrics(ledger, self._records, self.estimate, time.monotonic())
        metrics["sampling/epochs_consumed"] = self.prompts_fetched / self.rows
        self._write_trace(global_steps, outcome, controller)
        return self._materialize_batch(TRAIN, selected, dict(self.partitions[TRAIN])), metrics

    def _run(self, controller: StepController) -> str:
        while True:
            self._settle(controller)
            action = controller.next_action(time.monotonic())
            if action.kind == END:
                return action.outcome
            if action.kind == DISPATCH:
                self._dispatch(controller, action.count)
            elif action.kind == ABANDON:
                self._dead.update(action.uids)
            else:
                time.sleep(self.settings.poll_interval_s)

    def _dispatch(self, controller: StepController, count: int) -> None:
        assert self.refill_fn is not None
        self.refill_fn(count)
        self.prompts_fetched += count
        self._sync_metadata_from_transfer_queue()
        sent = [uid for uid in self.prompt_global_steps[TRAIN] if uid not in controller.ledger.entries]
        controller.ledger.dispatch([uid for uid in sent if uid not in self._dead], time.monotonic())

    def _settle(self, controller: StepController) -> None:
        """Look at the queue once: decide what has finished, clear what was rejected or is dead."""
        self._sync_metadata_from_transfer_queue()
        self._clear_dead()
        ledger = controller.ledger
        ended = self.finished_keys[TRAIN] | self.failure_keys[TRAIN]
        fresh = [uid for uid in ledger.pending() if uid in ended]
        if not fresh:
            return
        groups = self._read_groups(fresh)
        rejected = set()
        for uid in fresh:
            decision = self.settings.group_filter.decide(groups[uid])
            self._records[uid] = GroupRecord(groups[uid], decision.reason)
            ledger.resolve(uid, decision, time.monotonic(), tokens=sum(groups[uid].lengths))
            if not decision.keep:
                rejected.add(uid)
        self._clear_groups(TRAIN, rejected)

    def _read_groups(self, uids: list[str]) -> dict[str, Group]:
        wanted = set(uids)
        keys = [key for key in self.partitions[TRAIN] if key.split("_")[0] in wanted]
        samples: dict[str, list[dict]] = {uid: [] for uid in uids}
        if keys:
            data = tq.kv_batch_get(keys=keys, partition_id=TRAIN, select_fields=["extra_fields"])
            for key, value in zip(keys, data["extra_fields"], strict=True):
                info = getattr(value, "data", value).get("reward_extra_info", {})
                samples[key.split("_")[0]].append({**info, "length": self.partitions[TRAIN][key]["response_len"]})
        return {uid: self._group(uid, infos) for uid, infos in samples.items()}

    def _group(self, uid: str, infos: list[dict]) -> Group:
        if any("acc" not in info for info in infos):
            raise ValueError(
                "the reward returned no `acc` for a sample: a reward of your own must return the keys score and acc "
                "(0 or 1) for every sample, or set trainer.v1.sampler.sampler_kwargs.filter.enable=false"
            )
        return Group(
            accuracies=[float(info["acc"]) for info in infos],
            rewards=[float(info["score"]) + float(info.get("overlong_reward", 0.0)) for info in infos],
            lengths=[int(info["length"]) for info in infos],
            truncated=[bool(info.get("truncated", False)) for info in infos],
            expected_samples=self.settings.group_size,
            failed=uid in self.failure_keys[TRAIN],
        )

    def _clear_dead(self) -> None:
        """A given-up prompt delivers late, and its last status re-creates its key: clear both whenever they show up."""
        late = {key for key in self.partitions[TRAIN] if key.split("_")[0] in self._dead}
        late |= self._dead & set(self.prompt_global_steps[TRAIN])
        if late:
            self._clear_groups(TRAIN, {key.split("_")[0] for key in late})

    def _write_trace(self, global_steps: int, outcome: str, controller: StepController) -> None:
        if self.settings.trace_dir is None:
            return
        folder = Path(self.settings.trace_dir)
        folder.mkdir(parents=True, exist_ok=True)
        started, selected = controller.ledger.started_at, set(controller.ledger.selected())
        lines = []
        for entry in controller.ledger.entries.values():
            record = self._records.get(entry.uid)
            line = {
                "step": global_steps,
                "outcome": outcome,
                "uid": entry.uid,
                "order": entry.order,
                "state": entry.state,
                "trained": entry.uid in selected,
                "dispatched_s": round(entry.dispatched_at - started, 4),
                "decided_s": round(entry.decided_at - started, 4) if entry.decided_at is not None else None,
            }
            if record is not None:
                group = record.group
                line |= {"acc": group.accuracies, "reward": group.rewards, "length": group.lengths}
                line["truncated"] = group.truncated
            lines.append(json.dumps(line))
        (folder / f"{global_steps}.jsonl").write_text("\n".join(lines) + "\n")
