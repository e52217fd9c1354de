"""DAPO's dynamic sampling as a replay buffer of verl's V1 trainer: a thin shell over `recipe.dispatch`.

verl dispatches nothing by itself here (`recipe.trainer` leaves the first wave to the sampler): every prompt is sent
because the controller asked for it, so exactly `train_batch_size` kept groups train, or the step ends at a bound.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import transfer_queue as tq
from omegaconf import OmegaConf
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from recipe.dispatch import ABANDON, DISPATCH, END, SKIP_STEP, StepController
from recipe.examples import ExampleLog
from recipe.group_filter import Group, is_settled
from recipe.prompt_history import PromptHistory
from recipe.queue_texts import read_texts
from recipe.sampler_settings import SamplerSettings
from recipe.sampling_metrics import LOSS_MASKED, GroupRecord, sample_shares, step_metrics
from recipe.sampling_trace import write_step
from recipe.step_ledger import StepLedger

TRAIN = "train"


def uid_of(key: str) -> str:
    """The prompt's uid in a trajectory key `{uid}_{session}_{index}`."""
    return key.split("_", 1)[0]


class DynamicSampler(ReplayBuffer):
    """Keeps groups that the filter accepts, refills the others, and explains itself in metrics and a trace."""

    def __init__(self, *, sampler_kwargs: Any, refill_fn: Callable[[int], int], **kwargs: Any):
        """Take verl's constructor arguments; everything of ours comes through `sampler_kwargs`."""
        plain = OmegaConf.to_container(sampler_kwargs, resolve=True)
        self.settings = SamplerSettings.from_kwargs(plain)  # type: ignore[arg-type]
        super().__init__(
            sampler_kwargs=sampler_kwargs, refill_fn=refill_fn, poll_interval=self.settings.poll_interval_s, **kwargs
        )
        self.estimate = self.settings.new_estimate()
        self.history = PromptHistory(**self.settings.history) if self.settings.history is not None else None
        self.prompts_fetched = self.prompts_skipped = 0
        self.step_skipped = False
        # The trainer sets these two: prompts in the training data, and how to abort what the engines are generating.
        self.rows = 0
        self.abort_in_flight: Callable[[], None] = lambda: None
        # And these two: where a few responses of each step are kept as text, and what turns token ids into text.
        self.examples = ExampleLog(None, 0)
        self.decode: Callable[[list[int]], str] = str
        self._carried: list[str] = []
        self._records: dict[str, GroupRecord] = {}
        self._samples: dict[str, dict[str, Any]] = {}
        self._prompt_keys: dict[str, str] = {}
        self._dead: set[str] = set()

    # ------------------------------------------------------------------ what the trainer calls

    def admit(self, uid: str, prompt_key: str) -> bool:
        """Whether a fetched prompt is sent, or skipped for its history; counts it either way."""
        self.prompts_fetched += 1
        if self.history is not None and self.history.should_skip(prompt_key):
            self.prompts_skipped += 1
            return False
        self._prompt_keys[uid] = prompt_key
        return True

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must hold for the next run to sample as this one would have; JSON-ready."""
        return {
            "estimate": self.estimate.state_dict(),
            "prompts_fetched": self.prompts_fetched,
            "prompts_skipped": self.prompts_skipped,
            "history": self.history.state_dict() if self.history is not None else None,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self.estimate.load_state_dict(state["estimate"])
        self.prompts_fetched, self.prompts_skipped = state["prompts_fetched"], state["prompts_skipped"]
        if self.history is not None and state["history"] is not None:
            self.history.load_state_dict(state["history"])

    def export_carried(self) -> dict[str, Any] | None:
        """The carried groups with all their tensors, for `import_carried` in a later process; None without any."""
        if not self._carried:
            return None
        wanted = set(self._carried)
        tags = {key: tag for key, tag in tq.kv_list(TRAIN)[TRAIN].items() if uid_of(key) in wanted}
        keys = [key for key in tags if key not in wanted]
        fields = tq.kv_batch_get(keys=keys, partition_id=TRAIN)
        return {"uids": self._carried, "keys": keys, "tags": [tags[k] for k in keys], "fields": fields} | {
            "prompt_tags": [tags[uid] for uid in self._carried],
            "records": [self._records[uid] for uid in self._carried],
            "prompts": [self._prompt_keys.get(uid, "") for uid in self._carried],
        }

    def import_carried(self, payload: Mapping[str, Any]) -> None:
        """Put exported groups back into the queue; they lead the next step."""
        tq.kv_batch_put(keys=payload["uids"], partition_id=TRAIN, tags=payload["prompt_tags"])
        tq.kv_batch_put(keys=payload["keys"], partition_id=TRAIN, fields=payload["fields"], tags=payload["tags"])
        self._carried = list(payload["uids"])
        self._records |= dict(zip(payload["uids"], payload["records"], strict=True))
        self._prompt_keys |= dict(zip(payload["uids"], payload["prompts"], strict=True))

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[KVBatchMeta, dict]:
        """Return the keys of `batch_size` kept groups and the metrics of the step; validation goes verl's way.

        Raises:
            SamplingExhausted: a bound was reached under `on_exhausted=error`; the message has the counts.
        """
        if partition_id != TRAIN:
            return super().sample(global_steps, partition_id, batch_size)
        if self.rows == 0:
            raise RuntimeError("DynamicSampler.rows is not set: use trainer.v1.trainer_mode=dapo (recipe.trainer)")
        controller = self.settings.controller(self.estimate, self.rows, time.monotonic())
        self._begin(controller.ledger)
        try:
            outcome = self._run(controller)
        except BaseException:
            self._trace(global_steps, controller.ledger, [])
            raise
        self._stop_dead()
        controller.close()
        self.step_skipped = outcome == SKIP_STEP
        selected = [] if self.step_skipped else controller.ledger.selected()
        self._keep_examples(selected)
        self.examples.write(global_steps)
        self._trace(global_steps, controller.ledger, selected)
        self._dispose(controller.ledger, selected)
        metrics = self._metrics(controller.ledger, selected)
        return self._materialize_batch(TRAIN, selected, self._in_dispatch_order(selected)), metrics

    def _trace(self, global_steps: int, ledger: StepLedger, selected: list[str]) -> None:
        if self.settings.trace_dir is not None:
            write_step(self.settings.trace_dir, global_steps, ledger, self._records, set(selected), self._prompt_keys)

    def _in_dispatch_order(self, selected: list[str]) -> dict[str, dict]:
        """Tags of the selected trajectories by key, so that a batch does not depend on who finished first."""
        place = {uid: i for i, uid in enumerate(selected)}
        keys = [key for key in self.partitions[TRAIN] if uid_of(key) in place]
        keys.sort(key=lambda key: (place[uid_of(key)], *map(int, key.split("_")[1:])))
        return {key: self.partitions[TRAIN][key] for key in keys}

    # ------------------------------------------------------------------ one step

    def _begin(self, ledger: StepLedger) -> None:
        ledger.carry_in(self._carried)
        self._records = {uid: self._records[uid] for uid in self._carried}
        self._samples = {}
        self.examples.begin()

    def _run(self, controller: StepController) -> str:
        while True:
            self._settle(controller.ledger)
            action = controller.next_action(time.monotonic())
            if action.kind == END:
                return action.outcome
            if action.kind == DISPATCH:
                self._dispatch(controller.ledger, action.count)
            elif action.kind == ABANDON:
                self._abandon(controller.ledger, action.uids)
            else:
                time.sleep(self.settings.poll_interval_s)

    def _abandon(self, ledger: StepLedger, uids: tuple[str, ...]) -> None:
        self._dead.update(uids)
        for key, info in self._samples.items():
            if uid_of(key) in uids:
                ledger.entries[uid_of(key)].tokens += info["length"]

    def _dispatch(self, ledger: StepLedger, count: int) -> None:
        reported = self.refill_fn(count)
        self._sync_metadata_from_transfer_queue()
        # kv_list follows registration order, and prompts are registered in the order of the batch
        sent = [uid for uid in self.prompt_global_steps[TRAIN] if uid not in ledger.entries and uid not in self._dead]
        if not count == reported == len(sent):  # waiting on would never end, or train what nobody asked for
            raise RuntimeError(
                f"the sampler asked for {count} prompts, the trainer reports {reported} sent, and {len(sent)} are new "
                "in the queue: refill_fn must register and send exactly what it is asked for"
            )
        ledger.dispatch(sent, time.monotonic())

    def _settle(self, ledger: StepLedger) -> None:
        """Look at the queue once: decide what has finished, foresee what has not, clear what is rejected or dead."""
        self._sync_metadata_from_transfer_queue()
        self._clear_dead()
        pending = set(ledger.pending())
        self._read_samples(pending)
        groups: dict[str, list[dict]] = {uid: [] for uid in pending}
        for key, info in self._samples.items():
            if uid_of(key) in pending:
                groups[uid_of(key)].append(info)
        ended = self.finished_keys[TRAIN] | self.failure_keys[TRAIN]
        rejected = {uid for uid in ledger.pending() if uid in ended and not self._decide(ledger, uid, groups[uid])}
        for uid in pending - ended:
            self._foresee(ledger, uid, groups[uid])
        self._keep_examples(rejected)
        self._clear_groups(TRAIN, rejected)

    def _keep_examples(self, uids: Iterable[str]) -> None:
        """Keep a few responses of these decided groups as text, as long as the step has room for their kind."""
        groups: dict[str, dict[str, dict]] = {uid: {} for uid in uids}
        for key, info in self._samples.items() if groups else ():
            if uid_of(key) in groups:
                groups[uid_of(key)][key] = info
        for uid, infos in groups.items():
            if chosen := self.examples.choose(infos, self._records[uid].reason):
                self.examples.add(chosen, read_texts(list(chosen), TRAIN, self.decode), infos, self._records[uid])

    def _read_samples(self, pending: set[str]) -> None:
        """Fetch the grades of samples that have arrived since the last look.

        A key is listed before its data can be read; TransferQueue sets its tags once it can.
        """
        fresh = {key: tag for key, tag in self.partitions[TRAIN].items() if key not in self._samples and tag}
        keys = [key for key in fresh if uid_of(key) in pending]
        if not keys:
            return
        data = tq.kv_batch_get(keys=keys, partition_id=TRAIN, select_fields=["extra_fields"])
        for key, value in zip(keys, data["extra_fields"], strict=True):
            extra = getattr(value, "data", value)
            info = extra.get("reward_extra_info", {})
            if "acc" not in info:
                raise ValueError(
                    "the reward returned no `acc` for a sample: a reward of your own must return the keys score and "
                    "acc (0 or 1) for every sample"
                )
            own = {"length": self.partitions[TRAIN][key]["response_len"], "masked": extra.get(LOSS_MASKED, 0.0)}
            if "finish_reason" in extra:  # of our agent loop: a reward of one's own need not tell
                own["truncated"] = extra["finish_reason"] == "length"
            self._samples[key] = {**info, **own}

    def _decide(self, ledger: StepLedger, uid: str, infos: list[dict]) -> bool:
        group = self._group(infos, failed=uid in self.failure_keys[TRAIN])
        decision = self.settings.group_filter.decide(group)
        self._records[uid] = GroupRecord(group, decision.reason)
        ledger.resolve(uid, decision, time.monotonic(), tokens=sum(group.lengths))
        complete = not group.failed and len(infos) >= self.settings.group_size
        if self.history is not None and complete and uid in self._prompt_keys:
            self.history.record(self._prompt_keys[uid], group.mean_accuracy)
        return decision.keep

    def _foresee(self, ledger: StepLedger, uid: str, infos: list[dict]) -> None:
        if infos:
            settled = is_settled(self.settings.group_filter, self._group(infos), self.settings.group_size)
            ledger.foresee(uid, len(infos), self.settings.group_size, settled)

    def _group(self, infos: list[dict], failed: bool = False) -> Group:
        return Group(
            accuracies=[float(info["acc"]) for info in infos],
            rewards=[float(info["score"]) + float(info.get("overlong_reward", 0.0)) for info in infos],
            lengths=[int(info["length"]) for info in infos],
            truncated=[bool(info.get("truncated", False) or info["masked"]) for info in infos],
            expected_samples=self.settings.group_size,
            failed=failed,
        )

    # ------------------------------------------------------------------ the end of a step

    def _metrics(self, ledger: StepLedger, selected: list[str]) -> dict[str, float]:
        metrics = step_metrics(ledger, self._records, selected, self._carried, self.estimate, time.monotonic())
        metrics |= sample_shares(self._samples.values())
        if metrics["sampling/reward_error_share"] > self.settings.max_reward_error_share:
            raise RuntimeError(
                f"grading raised on {metrics['sampling/reward_error_share']:.0%} of the step's samples, more than "
                f"sampler_kwargs.max_reward_error_share={self.settings.max_reward_error_share}: the reward is broken "
                "and training on would teach noise. The reward workers' log has the errors"
            )
        metrics["sampling/epochs_consumed"] = self.prompts_fetched / self.rows
        metrics["sampling/step_skipped"] = float(self.step_skipped)
        if self.history is not None:
            metrics["sampling/history/skipped_prompts"] = self.prompts_skipped
            metrics |= {f"sampling/history/{name}": count for name, count in self.history.counts().items()}
        return metrics

    def _dispose(self, ledger: StepLedger, selected: list[str]) -> None:
        """Carry fresh surplus over, or drop it; what was carried once and still found no room is dropped.

        A skipped step updates nothing, so what it kept or was given is no staler after it. The trainer recomputes the
        old probabilities of carried groups with the policy of the step that trains them: their ratios start at 1.
        """
        kept = ledger.selected() + ledger.surplus()
        left = [uid for uid in kept if uid not in set(selected)]
        fresh = [uid for uid in left if self.step_skipped or not ledger.entries[uid].carried]
        self._carried = fresh if self.settings.surplus == "carry_over" else []
        self._clear_groups(TRAIN, set(left) - set(self._carried))
        self._prompt_keys = {uid: self._prompt_keys[uid] for uid in self._carried if uid in self._prompt_keys}

    def _stop_dead(self) -> None:
        """Abort what still runs: only given-up or unwanted groups are in flight when a step ends."""
        self._sync_metadata_from_transfer_queue()
        if self._dead & (self.pending_keys[TRAIN] | self.running_keys[TRAIN]):
            self.abort_in_flight()
            self._sync_metadata_from_transfer_queue()
        self._clear_dead()

    def _clear_dead(self) -> None:
        """A given-up prompt delivers late, and its last status re-creates its key: clear it once it no longer runs."""
        if not self._dead:
            return
        ended = self.finished_keys[TRAIN] | self.failure_keys[TRAIN]
        seen = {uid_of(key) for key in self.partitions[TRAIN]} | ended
        in_flight = self.pending_keys[TRAIN] | self.running_keys[TRAIN]
        self._clear_groups(TRAIN, (seen & self._dead) - in_flight)
