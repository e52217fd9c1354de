"""verl's synchronous trainer with the sampler in charge of dispatch and of its own state; verl's loop is not copied."""

import json
import os
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, open_dict
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from recipe.checkpoints import latest_complete, read_state, write_state

TRAINER_MODE = "dapo"


@register_trainer(TRAINER_MODE)
class DAPOTrainer(PPOTrainerSync):
    """`PPOTrainerSync` whose sampler sends every prompt, and whose checkpoints hold the sampler's state."""

    def __init__(self, config: DictConfig):
        super().__init__(config)
        self.trainer_mode = "sync"  # verl treats any other name as asynchronous

    def _init_dataloader(self) -> None:
        super()._init_dataloader()
        self.replay_buffer.rows = len(self.train_dataset)

    def prepare_step(self) -> dict:
        """Send nothing: the sampler plans the first wave too."""
        return {}

    def _save_checkpoint(self) -> None:
        """Write the sampler's state first, so that whatever verl's tracker names is complete."""
        folder = Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"
        folder.mkdir(parents=True, exist_ok=True)
        write_state(folder, {"sampler": self.replay_buffer.state_dict(), "run": self._identity()})
        super()._save_checkpoint()

    def _load_checkpoint(self) -> None:
        folder = self._choose_checkpoint()
        super()._load_checkpoint()
        if folder is None:
            return
        state = read_state(folder)
        if state["run"] != self._identity():
            raise ValueError(
                f"{folder} was trained with {json.dumps(state['run'])}, this run has {json.dumps(self._identity())}: "
                "resuming would skip or repeat data. Restore those settings, or start from the exported model in a "
                "new run_dir"
            )
        self.replay_buffer.load_state_dict(state["sampler"])

    def _choose_checkpoint(self) -> Path | None:
        """Point verl at the newest complete checkpoint; its own search trusts a tracker file."""
        if self.config.trainer.resume_mode != "auto":
            chosen = self.config.trainer.resume_from_path
            return Path(chosen) if self.config.trainer.resume_mode == "resume_path" else None
        world_size = self.config.trainer.nnodes * self.config.trainer.n_gpus_per_node
        folder = latest_complete(Path(self.config.trainer.default_local_dir), world_size)
        with open_dict(self.config):
            self.config.trainer.resume_mode = "disable" if folder is None else "resume_path"
            self.config.trainer.resume_from_path = None if folder is None else os.fspath(folder.resolve())
        return folder

    def _identity(self) -> dict[str, Any]:
        """What must not change over a resume: the data, its order, and the sizes that count through it."""
        data = self.config.data
        return {
            "train_rows": len(self.train_dataset),
            "train_batch_size": data.train_batch_size,
            "group_size": self.config.actor_rollout_ref.rollout.n,
            "data_seed": data.seed,
            "shuffle": data.shuffle,
        }
