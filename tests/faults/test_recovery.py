"""Each check of a recovery sees the loss that it is for, in a small run made by hand."""

import json

import pytest
import torch

from tests.faults.recipe import GROUPS
from tests.faults.recovery import last_complete, problems

ORDER = [f"arithmetic/{i}" for i in range(100)]


def group(step, number, reason="kept", trained=True, carried=False):
    acc = {"kept": [0.0, 1.0], "all_wrong": [0.0, 0.0]}[reason]
    row = {"uid": f"u{number}", "prompt": ORDER[number], "acc": acc, "reason": reason, "step": step}
    row |= {"lengths": [number, 7], "truncated": [False, False]}
    return row | {"trained": trained, "carried": carried, "decided_at": float(number)}


def jsonl(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def metrics(step):
    return {"step": step, "data": {"training/gradient_step": step, "sampling/trained_groups": GROUPS}}


@pytest.fixture
def run(tmp_path):
    """Two starts of a run. The first trained steps 1 and 2 and left a group over, the second went on with step 3."""
    first = [group(1, i) for i in range(GROUPS)] + [group(1, GROUPS, "all_wrong", trained=False)]
    second = [group(2, GROUPS + 1 + i) for i in range(GROUPS)] + [group(2, 2 * GROUPS + 1, trained=False)]
    third = [group(3, 2 * GROUPS + 1, carried=True)]
    third += [group(3, 2 * GROUPS + 2 + i) for i in range(GROUPS - 1)]
    for step, rows in ((1, first), (2, second), (3, third)):
        jsonl(tmp_path / "sampling" / f"{step}.jsonl", rows)
    jsonl(tmp_path / "metrics" / "000.jsonl", [metrics(1), metrics(2)])
    jsonl(tmp_path / "metrics" / "001.jsonl", [metrics(3)])
    checkpoint(tmp_path, 2, [*first, *second])
    checkpoint(tmp_path, 3, [*first, *second, *third])
    return tmp_path


def checkpoint(run, step, groups):
    folder = run / "checkpoints" / f"global_step_{step}"
    (folder / "actor").mkdir(parents=True)
    for kind in ("model", "extra_state"):
        torch.save({}, folder / "actor" / f"{kind}_world_size_1_rank_0.pt")
    optimizer = {"state": {0: {"step": torch.tensor(float(step))}}}
    torch.save(optimizer, folder / "actor" / "optim_world_size_1_rank_0.pt")
    torch.save({}, folder / "data.pt")
    sent = [g for g in groups if not g["carried"]]
    accuracies = {g["prompt"]: [sum(g["acc"]) / 2] for g in sent}
    sampler = {"prompts_fetched": len(sent), "history": {"accuracies": accuracies}}
    (folder / "dapo_state.json").write_text(json.dumps({"sampler": sampler}))
    (run / "checkpoints" / "latest_checkpointed_iteration.txt").write_text(str(step))


def found(run, resumed_from=2):
    return problems(run, run / "metrics" / "001.jsonl", resumed_from, ORDER)


def test_a_recovery_that_lost_nothing(run):
    assert found(run) == []
    assert last_complete(run) == 3


def test_a_start_from_another_step(run):
    assert found(run, resumed_from=1)[0] == "first step 3 instead of 2"


def test_a_fresh_optimizer(run):
    path = run / "checkpoints" / "global_step_3" / "actor" / "optim_world_size_1_rank_0.pt"
    torch.save({"state": {0: {"step": torch.tensor(1.0)}}}, path)
    assert found(run) == ["the optimizer of step 3 has made {1} updates"]


def test_a_skipped_prompt(run):
    rows = [json.loads(line) for line in (run / "sampling" / "3.jsonl").open()]
    jsonl(run / "sampling" / "3.jsonl", [rows[0], *rows[2:]])
    problem, *more = found(run)
    assert problem.startswith(f"prompt {2 * GROUPS + 2} of the run is arithmetic/{2 * GROUPS + 3}")
    assert more


def test_a_carried_group_that_is_gone(run):
    rows = [json.loads(line) for line in (run / "sampling" / "3.jsonl").open()]
    jsonl(run / "sampling" / "3.jsonl", rows[1:])
    assert "left 1 groups over, the next carries 0" in found(run)[0]


def test_a_carried_group_with_other_answers(run):
    rows = [json.loads(line) for line in (run / "sampling" / "3.jsonl").open()]
    rows[0]["lengths"] = [1, 7]
    jsonl(run / "sampling" / "3.jsonl", rows)
    assert found(run) == [f"carried groups ['u{2 * GROUPS + 1}'] have other answers than before"]


def test_a_history_that_began_anew(run):
    path = run / "checkpoints" / "global_step_3" / "dapo_state.json"
    state = json.loads(path.read_text())
    state["sampler"]["history"]["accuracies"].pop(ORDER[0])
    path.write_text(json.dumps(state))
    assert found(run) == ["the history of the prompts is not that of the traces"]


@pytest.mark.parametrize("size", [-1, 200, 3, 2, 1])
def test_a_checkpoint_that_does_not_load_is_not_the_last(run, size):
    path = run / "checkpoints" / "global_step_3" / "actor" / "model_world_size_1_rank_0.pt"
    path.write_bytes(path.read_bytes()[:size])
    assert last_complete(run) == 2
    (run / "checkpoints" / "latest_checkpointed_iteration.txt").write_text("")
    assert last_complete(run) == 2
