import json
import random
from dataclasses import replace

import pytest

from recipe.acceptance import DispatchPlanner
from recipe.decode_engine import DecodeEngine
from recipe.group_filter import GroupFilter
from recipe.sampling_policies import FixedBatch, Ours, Rollout
from recipe.sampling_trace import (
    LengthModel,
    TraceGroup,
    acceptance_of_useful,
    measured_acceptance,
    read_trace,
    synthetic,
    write_trace,
)
from recipe.simulate_sampling import POLICIES, Setting, main, measure, table, trained_per_step

RULE = GroupFilter()
SMALL = Setting(needed=32, steps=3, slots=128)


def ours(in_flight=20, **kwargs):
    return Ours(RULE, DispatchPlanner(in_flight), **kwargs)


def rollout(groups, slots=128):
    return Rollout(groups, DecodeEngine(slots, 25.0))


def test_engine_by_hand():
    """Two slots, one token a second: a = (3, 1), b = (2,). b starts when a's short sample ends at 1."""
    engine = DecodeEngine(2, 1.0)
    engine.submit("a", [3, 1])
    engine.submit("b", [2])
    assert engine.next_sample_end() == 1.0
    assert engine.next_group_end() == 3.0
    assert engine.advance(3.0) == ["a", "b"]
    assert engine.decoded == {"a": 4, "b": 2}
    assert engine.arrived == {"a": [1, 0], "b": [0]}
    assert engine.next_group_end() == float("inf")


def test_engine_abort_frees_the_slot_and_keeps_the_tokens():
    engine = DecodeEngine(1, 2.0)
    engine.submit("a", [100, 100])
    engine.submit("b", [4])
    engine.advance(3.0)
    engine.abort(["a"])
    assert engine.advance(5.0) == ["b"]
    assert engine.decoded == {"a": 6, "b": 4}


@pytest.mark.parametrize("acceptance", [0.1, 0.5, 0.8])
def test_synthetic_trace_has_the_acceptance_it_was_asked_for(acceptance):
    groups = synthetic(acceptance, 4000, 16, seed=1)
    assert measured_acceptance(groups, RULE) == pytest.approx(acceptance, abs=0.03)
    assert groups == synthetic(acceptance, 4000, 16, seed=1)
    assert groups != synthetic(acceptance, 4000, 16, seed=2)


def test_acceptance_of_a_useful_prompt_by_monte_carlo():
    rng, kept = random.Random(0), 0
    for _ in range(20000):
        p = rng.uniform(0.25, 0.75)
        kept += 0 < sum(rng.random() < p for _ in range(4)) < 4
    assert acceptance_of_useful(4) == pytest.approx(kept / 20000, abs=0.01)


def test_synthetic_lengths_have_a_long_tail_and_truncated_answers_are_wrong():
    groups = synthetic(0.5, 500, 16, 0, LengthModel(cap=8000))
    lengths = sorted(t for g in groups for t in g.lengths)
    assert 1.7 * lengths[len(lengths) // 2] < lengths[-len(lengths) // 20]
    cut = [(a, t) for g in groups for a, t, c in zip(g.acc, g.lengths, g.truncated, strict=True) if c]
    assert cut
    assert {a for a, _ in cut} == {0.0}
    assert {t for _, t in cut} == {8000}


def test_too_few_samples_for_an_acceptance_is_refused():
    with pytest.raises(ValueError, match=r"--acceptance 0.8 with --samples 2"):
        synthetic(0.8, 10, 2, 0)


def test_trace_round_trip_and_bad_line(tmp_path):
    groups = synthetic(0.5, 5, 4, 0)
    again = replace(groups[0], step=1, carried=True)
    write_trace(tmp_path / "step_1.jsonl", [again, *(replace(g, step=1) for g in groups)])
    write_trace(tmp_path / "step_0.jsonl", [*groups, TraceGroup([], [], uid="failed")])
    assert read_trace(tmp_path) == groups + [replace(g, step=1) for g in groups]
    (tmp_path / "bad.jsonl").write_text('{"lengths": [1]}\n')
    with pytest.raises(ValueError, match=r"bad\.jsonl:1 is not a sampling trace line"):
        read_trace(tmp_path / "bad.jsonl")


def test_ours_trains_the_first_kept_prompts_of_the_stream():
    """Lengths correlate with success in the synthetic trace; the first kept ones are trained all the same."""
    groups = synthetic(0.4, 2000, 8, 3)
    run, policy, start = rollout(groups), ours(), 0
    for _ in range(4):
        picked = [int(uid[1:]) for uid in policy.step(run, 32)]
        kept = [i for i in range(start, len(run.sent)) if RULE.decide(groups[i].group()).keep]
        assert picked == kept[:32]
        start = len(run.sent)


def test_ours_is_within_a_tenth_of_the_ideal_and_not_slower_than_fixed():
    groups = synthetic(0.35, 6000, 16, 0)
    setting = Setting(needed=256, steps=2, slots=1024)
    mine = measure(ours(80), groups, 0.35, setting)
    fixed = measure(FixedBatch(RULE), groups, 0.35, setting)
    assert mine["trained"] == fixed["trained"] == 256
    assert mine["generated_over_ideal"] <= 1.10
    assert mine["seconds"] <= fixed["seconds"]


def test_foresight_and_abort_pay():
    groups = synthetic(0.5, 4000, 16, 0)
    setting = Setting(needed=128, steps=4, slots=1024)
    blind = measure(ours(96, see_samples=False), groups, 0.5, setting)
    seeing = measure(ours(96), groups, 0.5, setting)
    aborting = measure(ours(96, abort_surplus=True), groups, 0.5, setting)
    assert seeing["seconds"] < blind["seconds"]
    assert aborting["seconds"] < seeing["seconds"]
    assert aborting["trained"] == 128


def test_fixed_batch_by_hand():
    """Every other prompt can be kept: 3 x 4 prompts give 6 groups, one round fills a batch of 4."""
    groups = [TraceGroup([0.0, float(i % 2)], [50, 100]) for i in range(100)]
    run = rollout(groups, slots=1000)
    assert FixedBatch(RULE).step(run, 4) == ["p1", "p3", "p5", "p7"]
    assert (len(run.sent), run.calls, run.engine.now) == (12, 1, 4.0)
    assert measure(FixedBatch(RULE), groups, 0.5, Setting(4, 1, 1000))["tokens_wasted"] == 8 * 150


def test_all_policies_on_one_trace_through_the_command(tmp_path, capsys):
    pytest.importorskip("verl.trainer.ppo.v1.replay_buffer")
    trace, out = tmp_path / "trace.jsonl", tmp_path / "out.json"
    write_trace(trace, synthetic(0.3, 1500, 8, 5))
    main(["--trace", str(trace), "--prompts", "64", "--steps", "4", "--slots", "256", "--json", str(out)])
    result = json.loads(out.read_text())
    assert capsys.readouterr().out.strip() == table(result)
    rows = result["policies"]
    assert set(rows) == set(POLICIES)
    assert all(row["trained"] == 64 for row in rows.values())
    assert result["ideal"] == pytest.approx(64 / measured_acceptance(read_trace(trace), RULE))
    for other in ("verl_builtin", "fixed_batch"):
        assert rows["ours"]["generated_over_ideal"] < rows[other]["generated_over_ideal"]
        assert rows["ours"]["tokens_wasted"] < rows[other]["tokens_wasted"]
        assert rows["ours"]["seconds"] < rows[other]["seconds"]


def test_builtin_is_verls_class_and_behaves_as_read():
    """First 4 prompts, 2 kept: 2 evicted, so 4 more are sent (2 credits each, within 4 in flight), then it drains."""
    pytest.importorskip("verl.trainer.ppo.v1.replay_buffer")
    from recipe.sampling_builtin import VerlBuiltin

    groups = [TraceGroup([0.0, float(i % 2)], [100, 100]) for i in range(100)]
    run = rollout(groups, slots=1000)
    picked = VerlBuiltin().step(run, 4)
    assert sorted(picked) == ["p1", "p3", "p5", "p7"]
    assert (len(run.sent), run.engine.now) == (8, 8.0)


def test_a_recorded_trace_says_how_many_groups_a_step_needs():
    groups = [TraceGroup([0.0, 1.0], [5, 5], step=step, trained=i < 2 + step) for step in (1, 2) for i in range(9)]
    assert trained_per_step(groups) == 4
    assert trained_per_step([replace(group, trained=False) for group in groups]) == 512


def test_a_trace_in_which_nothing_can_be_kept_is_refused(tmp_path):
    write_trace(tmp_path / "t.jsonl", [TraceGroup([0.0, 0.0], [5, 5])])
    with pytest.raises(ValueError, match="no group of it can be kept"):
        main(["--trace", str(tmp_path / "t.jsonl")])
