"""Two real ranks (gloo) with their micro-batches against the reference: loss and gradient of the whole mini-batch."""

import functools
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.recipe.test_policy_loss import MODES, batch, config, reference

torch = pytest.importorskip("torch")
policy_loss = pytest.importorskip("recipe.policy_loss")
live_engine = pytest.importorskip("recipe.live_engine")

RANKS = 2
CASES = [
    (mode, masked, parts)
    for mode in MODES
    for masked in [(), (1,), (0, 1), (0, 2, 3), (0, 1, 2, 3)]
    for parts in (1, 2)
]


def one_rank(rank, store):
    """What verl's engine does on one rank, all cases in turn; gradients averaged over ranks as FSDP does."""
    torch.set_num_threads(1)
    live_engine.get_device_id = torch.cpu.current_device  # as verl's, on the CPU platform
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    found = []
    for mode, masked, parts in CASES:
        old, new, advantages, mask = batch(masked)
        mine = slice(2 * rank, 2 * rank + 2)
        tokens = mask[mine].sum()
        torch.distributed.all_reduce(tokens)
        info = {"dp_size": RANKS, "batch_num_tokens": int(tokens), "global_batch_size": len(old)}
        total = 0.0
        with policy_loss.live_sequences(live_engine.count_live_everywhere(mask[mine], None)):
            for rows in torch.arange(4)[mine].chunk(parts):
                loss, _ = policy_loss.compute_policy_loss_dapo(
                    old[rows], new[rows], advantages[rows], mask[rows], mode, config(**info)
                )
                loss.backward()
                total += loss.detach()
        mean = torch.stack([total, *new.grad.flatten()]) / RANKS
        torch.distributed.all_reduce(mean)
        found.append(mean.tolist())
    torch.distributed.destroy_process_group()
    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Loss and gradients of every case, from two processes that are forked: importing verl once is enough."""
    store = tmp_path_factory.mktemp("gloo") / "store"
    with ProcessPoolExecutor(RANKS, mp_context=multiprocessing.get_context("fork")) as pool:
        ranks = [pool.submit(one_rank, rank, store) for rank in range(RANKS)]
        first, second = [rank.result(timeout=60) for rank in ranks]
    assert first == second
    return first


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{m}-masked{k}-{p}" for m, k, p in CASES])
def test_loss_and_gradient_over_two_ranks_equal_the_whole_batch(found, number):
    mode, masked, _ = CASES[number]
    old, new, advantages, mask = batch(masked)
    loss, *gradient = found[number]
    assert loss == pytest.approx(reference(old, new, advantages, mask, mode), rel=1e-5)
    assert gradient == pytest.approx(finite_differences(masked, mode), abs=1e-4)
    if len(masked) == 4:
        assert loss == 0.0
        assert not any(gradient)


@functools.cache
def finite_differences(masked, mode, step=1e-4):
    """Gradient of the reference at every log-probability."""
    old, new, advantages, mask = (t.detach().double() for t in batch(masked))
    flat = []
    for place in range(new.numel()):
        values = []
        for sign in (1, -1):
            moved = new.clone()
            moved.view(-1)[place] += sign * step
            values.append(reference(old, moved, advantages, mask.bool(), mode))
        flat.append((values[0] - values[1]) / (2 * step))
    return flat
