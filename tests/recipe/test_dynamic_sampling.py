"""The verl-facing sampler against a fake queue: what it sends, keeps, refills, carries, and how it ends."""

import functools
import itertools
import random
from collections import defaultdict
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from verl.trainer.ppo.v1 import replay_buffer

from recipe import dynamic_sampling
from recipe.compose import compose
from recipe.dispatch import SamplingExhausted
from recipe.dynamic_sampling import DynamicSampler
from recipe.group_filter import Decision
from recipe.sampling_trace import read_trace

MIXED, RIGHT, WRONG = [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]
STUCK, FAILED = "stuck", "failed"


class FakeEngine:
    """TransferQueue, engine and clock in one: prompts end in random order, one each time the sampler sleeps."""

    def __init__(self, outcomes, seed=0, sleep_s=1.0):
        self.outcomes = iter(outcomes)
        self.script = {}
        self.items = defaultdict(dict)
        self.info = {}
        self.extra = {}
        self.running = []
        self.rng = random.Random(seed)
        self.now = 0.0
        self.sleep_s = sleep_s
        self.numbers = itertools.count()
        self.aborted = False
        self.reward_error = 0.0
        self.masked = set()  # (prompt, sample) that overlong filtering took out of the loss

    # the trainer's side
    def refill(self, count):
        for _ in range(count):
            uid = f"p{next(self.numbers)}"
            self.script[uid] = next(self.outcomes)
            self.items["train"][uid] = {"is_prompt": True, "status": "running", "global_steps": 1}
            self.running.append(uid)
            self.sampler.admit(uid, f"data/{uid}")
        return count

    def abort(self):
        self.aborted = True
        self.running = [uid for uid in self.running if self.script[uid] != STUCK]

    # time
    def monotonic(self):
        return self.now

    def sleep(self, _seconds):
        self.now += self.sleep_s
        ready = [uid for uid in self.running if self.script[uid] != STUCK]
        if ready:
            self.finish(self.rng.choice(ready))

    def finish(self, uid):
        self.running.remove(uid)
        for other in self.running:  # TransferQueue lists a key, without tags, before its data can be read
            self.items["train"].setdefault(f"{other}_0_0", {})
        outcome = self.script[uid]
        for i, acc in enumerate([] if outcome in (FAILED, STUCK) else outcome):
            self.items["train"][f"{uid}_{i}_0"] = {"status": "success", "response_len": 10 + i, "global_steps": 1}
            self.info[f"{uid}_{i}_0"] = {"acc": acc, "score": 2 * acc - 1, "overlong_reward": 0.0, "truncated": 0.0}
            self.info[f"{uid}_{i}_0"]["reward_error"] = self.reward_error
            self.extra[f"{uid}_{i}_0"] = {"loss_masked": float((uid, i) in self.masked)}
        tag = self.items["train"].setdefault(uid, {})
        tag["status"] = "failure" if outcome == FAILED else "finished"

    # TransferQueue
    def kv_list(self, partition=None):
        return {name: dict(items) for name, items in self.items.items()}

    def kv_batch_get(self, keys, partition_id, select_fields=None):
        if any(not self.items[partition_id][key] for key in keys):
            raise ValueError("Some fields are not ready in all the requested keys!")
        return {"extra_fields": [{"reward_extra_info": self.info[key], **self.extra[key]} for key in keys]}

    def kv_batch_put(self, keys, partition_id, tags, fields=None):
        self.items[partition_id].update(zip(keys, tags, strict=True))

    def kv_clear(self, partition_id, keys):
        for key in keys:
            self.items[partition_id].pop(key, None)


@functools.cache
def sampler_kwargs(*overrides):
    fixed = ["data.train_batch_size=4", "actor_rollout_ref.rollout.n=2", "run_dir=/nowhere", f"{key('trace_dir')}=null"]
    return OmegaConf.to_container(compose([*fixed, *overrides]).trainer.v1.sampler.sampler_kwargs, resolve=True)


def make(engine, *overrides, rows=100):
    kwargs = OmegaConf.create(sampler_kwargs(*overrides))
    engine.sampler = DynamicSampler(
        trainer_mode="sync",
        trainer_config=OmegaConf.create({}),
        max_off_policy_threshold=None,
        max_off_policy_strategy="drop",
        sampler_kwargs=kwargs,
        refill_fn=engine.refill,
    )
    engine.sampler.rows = rows
    engine.sampler.abort_in_flight = engine.abort
    return engine.sampler


def sample(engine, step=1):
    with (
        mock.patch.object(dynamic_sampling, "tq", engine),
        mock.patch.object(replay_buffer, "tq", engine),
        mock.patch.object(dynamic_sampling, "time", engine),
    ):
        batch, metrics = engine.sampler.sample(step, "train", 4)
    return list(dict.fromkeys(key.split("_")[0] for key in batch.keys)), metrics


def key(name):
    return f"trainer.v1.sampler.sampler_kwargs.{name}"


def few_failures(groups):
    """Fewer than end a step of 4 groups with an error."""
    return groups.count(FAILED) < 2 * 4


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([MIXED, RIGHT, WRONG, FAILED]), max_size=30).filter(few_failures), st.integers(0, 99))
def test_exactly_the_first_kept_groups_in_dispatch_order_train(head, seed):
    engine = FakeEngine(itertools.chain(head, itertools.repeat(MIXED)), seed)
    make(engine)
    uids, metrics = sample(engine)
    kept = [uid for uid in engine.script if engine.script[uid] == MIXED]
    assert uids == kept[:4]
    assert metrics["sampling/trained_groups"] == 4
    assert metrics["sampling/generated_groups"] == len(engine.script)
    # nothing is left in flight, and nothing in the queue but what trains
    assert engine.running == []
    assert set(engine.items["train"]) == {f"{uid}_{i}_0" for uid in uids for i in range(2)}


def test_metrics_before_and_after_the_filter():
    engine = FakeEngine([RIGHT] * 4 + [WRONG] * 2 + [MIXED] * 100)
    make(engine)
    _, metrics = sample(engine)
    generated = [engine.script[uid] for uid in engine.script]
    assert metrics["sampling/acc/before_filter"] == pytest.approx(sum(map(sum, generated)) / (2 * len(generated)))
    assert metrics["sampling/acc/after_filter"] == 0.5
    assert metrics["sampling/groups/all_correct"] == generated.count(RIGHT) == 4
    assert metrics["sampling/groups/all_wrong"] == 2
    assert metrics["sampling/group_share/all_wrong"] == 2 / len(generated)
    assert metrics["sampling/tokens_wasted"] == 21 * (len(generated) - 4)
    assert metrics["sampling/response_length_right/after_filter"] == 10
    assert metrics["sampling/response_length_wrong/after_filter"] == 11
    assert metrics["sampling/tokens_generated"] == 21 * len(generated)
    assert metrics["sampling/epochs_consumed"] == len(generated) / 100


def test_a_fall_of_the_acceptance_is_learned_within_a_few_steps():
    engine = FakeEngine(itertools.chain([MIXED] * 400, itertools.cycle([WRONG, RIGHT, MIXED, WRONG])))
    make(engine, rows=1000)
    while len(engine.script) < 400:
        sample(engine)
    rates = [sample(engine)[1]["sampling/acceptance_estimate"] for _ in range(4)]
    assert rates[-1] == pytest.approx(1 / 4, abs=0.15)


@pytest.mark.parametrize("outcome", [RIGHT, WRONG])
def test_data_in_which_nothing_can_be_kept_ends_with_counts(outcome):
    engine = FakeEngine(itertools.repeat(outcome))
    make(engine, key("bounds.max_generated=12"))
    with pytest.raises(SamplingExhausted, match="12 generated prompts with 0 of 4 groups") as error:
        sample(engine)
    assert ("all_correct 12" if outcome == RIGHT else "all_wrong 12") in str(error.value)


def test_few_useful_prompts_train():
    rows = [*[WRONG] * 20, MIXED, *[RIGHT] * 4]  # one of 25: four kept groups are four passes over the data
    engine = FakeEngine(itertools.cycle(rows))
    make(engine, rows=len(rows))
    uids, metrics = sample(engine)
    assert [engine.script[uid] for uid in uids] == [MIXED] * 4
    assert 4 * 25 - 4 <= metrics["sampling/generated_groups"] <= 10 * 25  # bounds.max_passes is 10
    assert metrics["sampling/epochs_consumed"] == metrics["sampling/generated_groups"] / 25


def test_passes_over_the_data_are_a_bound():
    engine = FakeEngine(itertools.repeat(WRONG))
    make(engine, key("bounds.max_passes=2"), rows=5)
    with pytest.raises(SamplingExhausted, match="10 generated prompts"):
        sample(engine)


def test_train_partial_trains_what_there_is_and_skip_step_nothing():
    engine = FakeEngine([MIXED, MIXED, *itertools.repeat(WRONG, 50)])
    make(engine, key("bounds.max_generated=10"), key("bounds.on_exhausted=train_partial"))
    assert sample(engine)[0] == ["p0", "p1"]
    assert not engine.sampler.step_skipped

    engine = FakeEngine([MIXED, MIXED, *itertools.repeat(WRONG, 50)])
    make(engine, key("bounds.max_generated=10"), key("bounds.on_exhausted=skip_step"))
    uids, metrics = sample(engine)
    assert uids == []
    assert engine.sampler.step_skipped
    assert metrics["sampling/step_skipped"] == 1.0
    assert engine.items["train"] == {}


def test_stuck_prompt_is_given_up_refilled_counted_and_never_delivered():
    engine = FakeEngine([STUCK, *itertools.repeat(MIXED, 50)])
    make(engine, key("bounds.give_up_after_s=20"))
    uids, metrics = sample(engine)
    assert "p0" not in uids
    assert len(uids) == 4
    assert metrics["sampling/groups/given_up"] == 1
    assert engine.aborted
    # what it still delivers, and its last status, which re-creates its key, is cleared in the next step
    engine.script["p0"] = MIXED
    engine.running.append("p0")
    engine.finish("p0")
    uids, _ = sample(engine, step=2)
    assert "p0" not in uids
    assert not any(k.startswith("p0_") or k == "p0" for k in engine.items["train"])


def test_surplus_is_dropped_or_leads_the_next_step():
    def surplus_of(mode):
        engine = FakeEngine([RIGHT] * 6 + [MIXED] * 200, seed=1)
        make(engine, key(f"surplus={mode}"))
        first, metrics = sample(engine)
        kept = [uid for uid in engine.script if engine.script[uid] == MIXED]
        return engine, first, kept[4:], metrics

    engine, first, left, metrics = surplus_of("drop")
    assert metrics["sampling/surplus_groups"] == len(left) > 0
    assert metrics["sampling/tokens_wasted"] == 21 * (6 + len(left))
    assert not set(sample(engine, step=2)[0]) & set(left)

    engine, first, left, metrics = surplus_of("carry_over")
    assert metrics["sampling/tokens_wasted"] == 21 * 6
    second, metrics = sample(engine, step=2)
    assert second[: len(left)] == left[:4]
    assert metrics["sampling/carried_share"] == min(4, len(left)) / 4
    assert not set(first) & set(second)


def test_carried_groups_survive_a_restart():
    engine = FakeEngine([RIGHT] * 6 + [MIXED] * 200, seed=1)
    make(engine, key("surplus=carry_over"))
    first, _ = sample(engine)
    with mock.patch.object(dynamic_sampling, "tq", engine):
        payload, state = engine.sampler.export_carried(), engine.sampler.state_dict()
    assert payload is not None

    fresh = FakeEngine([MIXED] * 200)
    fresh.numbers = itertools.count(1000)
    make(fresh, key("surplus=carry_over"))
    fresh.sampler.load_state_dict(state)
    with mock.patch.object(dynamic_sampling, "tq", fresh):
        fresh.sampler.import_carried(payload)
    second, _ = sample(fresh, step=2)
    assert second[: len(payload["uids"])] == payload["uids"]
    assert not set(first) & set(second)
    assert fresh.sampler.prompts_fetched >= state["prompts_fetched"] > 0


def test_skipped_step_keeps_what_it_was_given_and_what_it_kept():
    engine = FakeEngine([MIXED, *[RIGHT] * 3, *[MIXED] * 4, *[WRONG] * 8, *[MIXED] * 50], seed=1)
    options = [key("surplus=carry_over"), key("bounds.max_generated=8"), key("bounds.on_exhausted=skip_step")]
    make(engine, *options)
    engine.sampler.estimate.observe([(i == 0, 0) for i in range(8)])  # it sends all eight at once
    first, _ = sample(engine)
    assert first == ["p0", "p4", "p5", "p6"]
    assert sample(engine, step=2)[0] == []  # eight wrong ones: p7 alone is no batch, and must not be lost
    assert sample(engine, step=3)[0][0] == "p7"


def test_trainer_that_sends_another_number_is_refused():
    for wrong in (0, -1, 1):
        engine = FakeEngine(itertools.repeat(MIXED))
        sampler = make(engine)
        send = sampler.refill_fn
        sampler.refill_fn = lambda count, send=send, wrong=wrong: send(count + wrong) if wrong else 0 * send(1)
        with pytest.raises(RuntimeError, match="refill_fn must register and send exactly"):
            sample(engine)


def test_group_whose_only_signal_is_masked_does_not_train():
    engine = FakeEngine(itertools.repeat(MIXED))
    engine.masked = {("p0", 0), ("p0", 1), ("p2", 1)}
    make(engine, "technique=naive_grpo", "algorithm.filter_groups.enable=true", "overlong_filtering.enable=true")
    uids, metrics = sample(engine)
    assert uids == ["p1", "p2", "p3", "p4"]
    assert metrics["sampling/groups/no_spread"] == 1
    assert metrics["sampling/masked_share"] == pytest.approx(3 / (2 * len(engine.script)))
    assert metrics["sampling/truncated_share/before_filter"] == metrics["sampling/masked_share"]


def test_a_filter_of_ones_own_decides():
    engine = FakeEngine([MIXED, RIGHT, MIXED, *[RIGHT] * 20])
    make(engine, key(f"filter.custom={__name__}:OnlyRight"))
    assert sample(engine)[0] == ["p1", "p3", "p4", "p5"]
    with pytest.raises(ValueError, match=r"custom='recipe\.nothing:Filter' cannot be made"):
        make(FakeEngine([]), key("filter.custom=recipe.nothing:Filter"))


class OnlyRight:
    def decide(self, group):
        right = group.mean_accuracy == 1.0
        return Decision(right, "kept" if right else "too_hard")


def test_without_the_filter_every_complete_group_trains_and_failed_ones_are_refilled():
    engine = FakeEngine([RIGHT, FAILED, WRONG, MIXED, RIGHT, *itertools.repeat(MIXED, 20)])
    make(engine, "technique=naive_grpo")
    uids, metrics = sample(engine)
    assert uids == ["p0", "p2", "p3", "p4"]
    assert metrics["sampling/groups/failed"] == 1


def test_history_skips_prompts_before_dispatch():
    engine = FakeEngine(itertools.repeat(MIXED))
    sampler = make(engine, key("history.enable=true"), key("history.streak=1"), key("history.skip=0.9"))
    for _ in range(3):
        sampler.history.record("data/easy", 1.0)
    skipped = sum(not sampler.admit(f"u{i}", "data/easy") for i in range(200))
    assert 150 < skipped < 200
    assert all(sampler.admit(f"v{i}", "data/new") for i in range(50))
    assert sampler.state_dict()["prompts_skipped"] == skipped


def test_trace_has_every_group_kept_or_not(tmp_path):
    engine = FakeEngine([RIGHT, WRONG] + [MIXED] * 50)
    make(engine, key(f"trace_dir={tmp_path}"))
    uids, _ = sample(engine, step=7)
    trace = read_trace(tmp_path / "7.jsonl")
    assert [group.uid for group in trace] == list(engine.script)
    assert [group.uid for group in trace if group.trained] == uids
    assert [group.acc for group in trace] == list(engine.script.values())
    assert trace[0].reason == "all_correct"
    assert [group.prompt for group in trace] == [f"data/{uid}" for uid in engine.script]


def test_step_that_fails_leaves_its_trace(tmp_path):
    engine = FakeEngine(itertools.repeat(WRONG))
    make(engine, key("bounds.max_generated=6"), key(f"trace_dir={tmp_path}"))
    with pytest.raises(SamplingExhausted):
        sample(engine, step=3)
    assert [group.reason for group in read_trace(tmp_path / "3.jsonl")] == ["all_wrong"] * 6


def test_reward_without_acc_is_refused_by_name():
    engine = FakeEngine(itertools.repeat(MIXED))
    make(engine)
    engine.kv_batch_get = lambda keys, partition_id, select_fields=None: {
        "extra_fields": [{"reward_extra_info": {"score": 1.0}} for _ in keys]
    }
    with pytest.raises(ValueError, match="returned no `acc`"):
        sample(engine)


def test_broken_reward_stops_the_run_and_a_few_errors_do_not():
    engine = FakeEngine(itertools.repeat(MIXED))
    make(engine)
    engine.reward_error = 1.0
    with pytest.raises(RuntimeError, match="grading raised on 100% of the step's samples"):
        sample(engine)
    engine = FakeEngine(itertools.repeat(MIXED))
    make(engine, key("max_reward_error_share=1"))
    engine.reward_error = 1.0
    assert sample(engine)[1]["sampling/reward_error_share"] == 1.0


def test_unknown_sampler_key_is_refused():
    with pytest.raises(ValueError, match="unknown keys \\['foo'\\]"):
        make(FakeEngine([]), f"+{key('foo=1')}")
