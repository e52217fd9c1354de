"""verl's synchronous trainer with the sampler in charge of dispatch and of its own state; verl's loop is not copied."""

import logging
import os
import shutil
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, open_dict
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.tensordict_utils import assign_non_tensor_stack

from recipe import validation_metrics
from recipe.checkpoints import CARRIED_FILE, read_state, resume_folder, rotate, set_aside, world_size, write_state
from recipe.examples import ExampleLog
from recipe.health import RULES, HealthSettings, Monitor
from recipe.metrics_log import read_steps
from recipe.resume_rules import resume_problems
from recipe.run_identity import identity
from recipe.sampling_seed import group_uid
from reward.selftest import selftest

logger = logging.getLogger(__name__)

TRAINER_MODE = "dapo"


class _StepSkipped(Exception):
    """Raised between sampling and training of a step that trains nothing."""


def without_padding(batch: KVBatchMeta) -> KVBatchMeta:
    """The samples of a batch, without the rows that verl fills a partial batch up with: they count nowhere."""
    return batch.select_keys(
        [key for key, tag in zip(batch.keys, batch.tags, strict=True) if not tag.get("is_padding", False)]
    )


@register_trainer(TRAINER_MODE)
class DAPOTrainer(PPOTrainerSync):
    """`PPOTrainerSync` whose sampler sends every prompt, and whose checkpoints hold the sampler's state."""

    def __init__(self, config: DictConfig):
        super().__init__(config)
        self.trainer_mode = "sync"  # verl treats any other name as asynchronous
        self._keep = config.trainer.max_actor_ckpt_to_keep
        config.trainer.max_actor_ckpt_to_keep = None  # verl deletes before it writes: see checkpoints.rotate
        self.gradient_steps = 0  # optimizer steps over the run

    def _init_dataloader(self) -> None:
        super()._init_dataloader()
        self.replay_buffer.rows = len(self.train_dataset)

    def _init_tokenizer(self) -> None:
        """Load the tokenizer, then see the reward manager pay what the configuration promises."""
        super()._init_tokenizer()
        scores = selftest(self.config, self.tokenizer)
        logger.warning("reward self-test: short response %(short)s, at-limit response %(at_limit)s", scores)

    def _setup(self) -> None:
        self.replay_buffer.abort_in_flight = self._abort_in_flight
        self.replay_buffer.examples = ExampleLog(self.config.examples.dir, self.config.examples.per_kind)
        super()._setup()
        self.replay_buffer.decode = partial(self.tokenizer.decode, skip_special_tokens=True)

    def _abort_in_flight(self) -> None:
        """Abort whatever the engines generate; their next requests are accepted again."""
        self.checkpoint_manager.abort_replicas()
        self.checkpoint_manager.resume_generation_replicas()

    def _fetch_one_gen_batch(self) -> TensorDict:
        """Fetch the next prompt that its history does not skip, under a name that a repetition gives it too."""
        while True:
            batch = super()._fetch_one_gen_batch()
            uid = group_uid(self.config.seed, self.replay_buffer.prompts_fetched)
            assign_non_tensor_stack(batch, "uid", [uid])
            if self.replay_buffer.admit(uid, f"{batch['data_source'][0]}/{batch['index'][0]}"):
                return batch

    def prepare_step(self) -> dict:
        """Send nothing: the sampler plans the first wave too."""
        return {}

    def on_sample_end(self) -> None:
        """End the step here when the sampler found nothing to train on and was told to skip."""
        super().on_sample_end()
        if self.replay_buffer.step_skipped:
            raise _StepSkipped

    def _step_once(self, metrics: dict, timing_raw: dict, sample_batch_size: int) -> KVBatchMeta:
        try:
            batch = super()._step_once(metrics, timing_raw, sample_batch_size)
        except _StepSkipped:
            return KVBatchMeta(partition_id="train", keys=[], tags=[])
        self.gradient_steps += self._updates(len(batch.keys))
        return batch

    def _updates(self, samples: int) -> int:
        """Optimizer steps that a batch of so many samples (padding included) takes."""
        if self.global_steps < self.config.trainer.critic_warmup:
            return 0
        actor = self.config.actor_rollout_ref.actor
        return samples // (actor.ppo_mini_batch_size * self.config.actor_rollout_ref.rollout.n) * actor.ppo_epochs

    def _compute_metrics(self, batch: KVBatchMeta, metrics: dict, timing_raw: dict, global_steps: int, epoch: int):
        metrics["training/gradient_step"] = self.gradient_steps
        if batch.keys:
            super()._compute_metrics(without_padding(batch), metrics, timing_raw, global_steps, epoch)
        else:
            metrics["training/global_step"] = global_steps
        self._judge(metrics, global_steps)

    @cached_property
    def _health(self) -> Monitor:
        return Monitor(HealthSettings.from_mapping(self.config.health))

    def _judge(self, metrics: dict, global_steps: int) -> None:
        """Add `health/<rule>` (1.0: it fires) to the step's metrics, and warn of those that begin to fire."""
        firing, new = self._health.news(global_steps, metrics)
        names = {finding.rule for finding in firing}
        metrics.update({f"health/{rule}": float(rule in names) for rule in RULES})
        for finding in new:
            logger.warning("health, step %d: %s", global_steps, finding)

    def _val_metrics_update(self, data_sources, sample_uids, values, sample_turns, expected_acc_counts=None):
        """Bootstrap accuracy as verl does; every other key of the reward is a plain mean."""
        bootstrapped, others = validation_metrics.split(values)
        expected = None if validation_metrics.complete(sample_uids, expected_acc_counts) else expected_acc_counts
        metrics = super()._val_metrics_update(data_sources, sample_uids, bootstrapped, sample_turns, expected)
        return metrics | validation_metrics.means(data_sources, sample_uids, others)

    def _log_rollout_data(self, batch: KVBatchMeta, timing_raw: dict, rollout_data_dir: str) -> None:
        if batch.keys:
            super()._log_rollout_data(without_padding(batch), timing_raw, rollout_data_dir)

    def _save_checkpoint(self) -> None:
        """Write the sampler's state first, so that whatever verl's tracker names is complete."""
        folder = Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"
        shutil.rmtree(folder, ignore_errors=True)  # of an interrupted save, or cut short since: its parts must not mix
        folder.mkdir(parents=True, exist_ok=True)
        if (carried := self.replay_buffer.export_carried()) is not None:
            torch.save(carried, folder / CARRIED_FILE)
        state = {"sampler": self.replay_buffer.state_dict(), "gradient_steps": self.gradient_steps}
        write_state(folder, state | {"run": self._identity})
        super()._save_checkpoint()
        for old in rotate(folder.parent, self._keep, world_size(self.config)):
            logger.warning("deleted %s: trainer.max_actor_ckpt_to_keep=%s", old, self._keep)

    def _load_checkpoint(self) -> None:
        mode, identity_now = self.config.trainer.resume_mode, self._identity
        folder = self._choose_checkpoint()
        if folder is not None:
            state = read_state(folder)
            if problems := resume_problems(folder, state["run"], identity_now, self.config.allow_changed_resume):
                raise ValueError("\n".join(problems))
        super()._load_checkpoint()
        if mode != "auto":  # what a person has gone back behind must never be taken for this run's
            for old in set_aside(Path(self.config.trainer.default_local_dir), self.global_steps):
                logger.warning("set aside %s: this run starts at step %d", old, self.global_steps)
        if folder is None:
            return
        self.replay_buffer.load_state_dict(state["sampler"])
        self.gradient_steps = state["gradient_steps"]
        if (folder / CARRIED_FILE).is_file():
            # our own file, pickled like the rest of verl's checkpoints: resume only from folders that you trust
            self.replay_buffer.import_carried(torch.load(folder / CARRIED_FILE, weights_only=False))
        for step, data in read_steps(Path(self.config.run_dir) / "metrics").items():
            if step <= self.global_steps:  # what the attempts before this one saw
                self._health.news(step, data)

    def _choose_checkpoint(self) -> Path | None:
        """Point verl at the newest complete checkpoint; its own search trusts a tracker file."""
        folder = resume_folder(self.config)
        with open_dict(self.config):
            self.config.trainer.resume_mode = "disable" if folder is None else "resume_path"
            self.config.trainer.resume_from_path = None if folder is None else os.fspath(folder.resolve())
        return folder

    @cached_property
    def _identity(self) -> dict[str, Any]:
        """What must not change over a resume, as it was when this start began: its files may be replaced meanwhile."""
        return identity(self.config)
