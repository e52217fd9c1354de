"""What our trainer adds to verl's step: optimizer steps counted, skipped steps, padding that counts nowhere."""

from types import SimpleNamespace
from unittest import mock

import pytest

from recipe.compose import compose

trainer = pytest.importorskip("recipe.trainer")
KVBatchMeta = pytest.importorskip("transfer_queue").KVBatchMeta


@pytest.fixture(scope="module")
def config():
    return compose(["data.train_batch_size=8", "actor_rollout_ref.actor.ppo_mini_batch_size=2", "run_dir=/nowhere"])


def batch(samples, padding=0):
    keys = [f"p{i}_0_0" for i in range(samples)] + [f"pad_{i}_0" for i in range(padding)]
    tags = [{"seq_len": 9}] * samples + [{"seq_len": 128, "is_padding": True}] * padding
    return KVBatchMeta(partition_id="train", keys=keys, tags=tags)


class Logged(trainer.DAPOTrainer):
    """Our trainer without the machinery that its constructor starts."""

    def __init__(self, config):
        self.config, self.global_steps, self.gradient_steps = config, 0, 0
        self.replay_buffer = SimpleNamespace(step_skipped=False)

    def step_of(self, full):
        """One step on what verl would train; None is a step that the sampler skipped. The logged metrics."""
        self.global_steps += 1
        self.replay_buffer.step_skipped = full is None

        def train(this, metrics, timing_raw, size):
            this.on_sample_end()
            return full

        seen = []
        with (
            mock.patch.object(trainer.PPOTrainerSync, "_step_once", train),
            mock.patch.object(trainer.PPOTrainerSync, "on_sample_end", return_value=None),
            mock.patch.object(trainer.PPOTrainerSync, "_compute_metrics", lambda this, found, *_: seen.append(found)),
            mock.patch.object(trainer.PPOTrainerSync, "_log_rollout_data", lambda this, found, *_: seen.append(found)),
        ):
            found, metrics = self._step_once({}, {}, 8), {}
            self._compute_metrics(found, metrics, {}, self.global_steps, 0)
            self._log_rollout_data(found, {}, "/nowhere")
        return metrics, seen


def test_gradient_steps_are_those_taken(config):
    run = Logged(config)  # an update is 2 groups of 8 samples
    counted = [run.step_of(full)[0]["training/gradient_step"] for full in (batch(64), None, batch(20, 12), batch(64))]
    assert counted == [4, 4, 6, 10]


def test_warm_up_of_a_critic_updates_nothing(config):
    run = Logged(compose(["data.train_batch_size=8", "trainer.critic_warmup=2", "run_dir=/nowhere"]))
    assert [run.step_of(batch(64))[0]["training/gradient_step"] for _ in range(2)] == [0, 1]


def test_padding_reaches_neither_metrics_nor_dump(config):
    _, seen = Logged(config).step_of(batch(20, 12))
    assert [found.keys for found in seen] == [batch(20).keys] * 2
    assert all(tag == {"seq_len": 9} for found in seen for tag in found.tags)


def test_skipped_step_logs_its_step_and_computes_nothing(config):
    metrics, seen = Logged(config).step_of(None)
    own = {key: value for key, value in metrics.items() if not key.startswith("health/")}
    assert own == {"training/gradient_step": 0, "training/global_step": 1}
    assert seen == []


def test_a_health_rule_is_a_metric_and_a_warning_once(config, caplog):
    run = Logged(compose(["health.window=2", "run_dir=/nowhere"]))
    logged = []
    for share in (0.0, 0.9, 0.9, 0.9):
        metrics = {"sampling/truncated_share/before_filter": share}
        with mock.patch.object(trainer.PPOTrainerSync, "_compute_metrics"):
            run._compute_metrics(batch(8), metrics, {}, len(logged) + 1, 0)
        logged.append(metrics)
    assert [metrics["health/truncated"] for metrics in logged] == [0.0, 1.0, 1.0, 1.0]
    assert {metrics["health/gradient_spike"] for metrics in logged} == {0.0}
    warnings = [record.getMessage() for record in caplog.records if "health" in record.getMessage()]
    assert len(warnings) == 1
    assert warnings[0].startswith("health, step 2: Truncated answers: share of answers cut at the limit 0.45")
