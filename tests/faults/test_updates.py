"""Checkpoints of torch's own AdamW, whole and with one part begun anew."""

import copy

import pytest
import torch

from tests.faults.updates import Saved, problems

LR = 1e-3


def save(folder, model, optimizer):
    (folder / "actor").mkdir(parents=True)
    optimizer = copy.deepcopy(optimizer.state_dict())
    optimizer["param_groups"][0]["initial_lr"] = LR
    torch.save(dict(model.state_dict()), folder / "actor" / "model_world_size_1_rank_0.pt")
    torch.save(optimizer, folder / "actor" / "optim_world_size_1_rank_0.pt")
    return Saved.read(folder)


def update(model, optimizer, seed):
    torch.manual_seed(seed)
    optimizer.zero_grad()
    (model(torch.randn(16, 8)) - torch.randn(16, 4)).square().mean().backward()
    optimizer.step()


@pytest.fixture(params=[1, 2])
def trained(tmp_path, request):
    """Thirty updates, and a checkpoint before each of the last one or two and after them; the model can go on."""
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.1)
    first = copy.deepcopy(model.state_dict())
    for i in range(30):
        update(model, optimizer, i)
    before = save(tmp_path / "before", model, optimizer)
    return model, optimizer, first, before, request.param, tmp_path / "after"


def go_on(model, optimizer, count):
    for i in range(count):
        update(model, optimizer, 100 + i)


def test_a_run_that_went_on(trained):
    model, optimizer, _, before, count, folder = trained
    go_on(model, optimizer, count)
    assert problems(before, save(folder, model, optimizer)) == []


def test_weights_that_began_anew(trained):
    model, optimizer, first, before, count, folder = trained
    model.load_state_dict(first)
    go_on(model, optimizer, count)
    assert f"weights after {count} update(s) cannot come from the checkpoint before" in problems(
        before, save(folder, model, optimizer)
    )


def with_empty_moment(trained, part):
    """What is found when the run goes on with one moment set to zero."""
    model, optimizer, _, before, count, folder = trained
    for state in optimizer.state.values():
        state[part].zero_()
    go_on(model, optimizer, count)
    return " ".join(problems(before, save(folder, model, optimizer)))


def test_a_second_moment_that_began_anew(trained):
    assert "the second moment after" in with_empty_moment(trained, "exp_avg_sq")


@pytest.mark.parametrize("trained", [1], indirect=True)  # over several updates it has forgotten too much to be told
def test_a_first_moment_that_began_anew(trained):
    assert "the first moment after 1 update(s)" in with_empty_moment(trained, "exp_avg")


def test_an_optimizer_that_did_nothing(trained):
    before = trained[3]
    assert problems(before, before) == ["the optimizer has made 30 updates, 30 before"]
