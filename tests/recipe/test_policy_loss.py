"""The loss against a reference written out by hand, whole and cut into micro-batches and ranks."""

import functools
import math
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
policy_loss = pytest.importorskip("recipe.policy_loss")
core_algos = pytest.importorskip("verl.trainer.ppo.core_algos")

MODES = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum")
LENGTHS = (3, 5, 2, 4)
LOW, HIGH, DUAL = 0.2, 0.28, 10.0


class Config(SimpleNamespace):
    def get(self, name, default=None):
        return getattr(self, name, default)


def config(**info):
    return Config(
        clip_ratio=0.2, clip_ratio_low=LOW, clip_ratio_high=HIGH, clip_ratio_c=DUAL, global_batch_info=dict(info)
    )


def batch(masked=()):
    generator = torch.Generator().manual_seed(7)
    old = -2.0 * torch.rand(4, 5, generator=generator)
    new = (old + 0.8 * torch.randn(4, 5, generator=generator)).requires_grad_()
    advantages = torch.tensor([1.5, -0.7, -1.1, 0.4])[:, None].expand(4, 5).clone()
    mask = torch.arange(5)[None, :] < torch.tensor(LENGTHS)[:, None]
    mask[list(masked)] = False
    return old, new, advantages, mask


def reference(old, new, advantages, mask, mode):
    """Equation by equation in plain Python: clip, dual clip, then the mean over what is left."""
    sums, tokens = [], []
    for i in range(len(old)):
        total, count = 0.0, 0
        for t in range(old.shape[1]):
            if mask[i, t]:
                a, ratio = float(advantages[i, t]), math.exp(float(new[i, t]) - float(old[i, t]))
                surrogate = min(ratio * a, min(max(ratio, 1 - LOW), 1 + HIGH) * a)
                total -= max(surrogate, DUAL * a) if a < 0 else surrogate
                count += 1
        sums.append(total)
        tokens.append(count)
    live = sum(n > 0 for n in tokens)
    if live == 0:
        return 0.0
    if mode == "token-mean":
        return sum(sums) / sum(tokens)
    if mode == "seq-mean-token-sum":
        return sum(sums) / live
    return sum(s / n for s, n in zip(sums, tokens, strict=True) if n) / live


def split_loss(tensors, mode, parts, ranks):
    """verl's way: every rank sums the losses of its micro-batches, the ranks are averaged."""
    old, new, advantages, mask = tensors
    total = 0.0
    rows = len(old) // (parts * ranks)
    with policy_loss.live_sequences(int(mask.any(-1).sum())):
        for start in range(0, len(old), rows):
            s = slice(start, start + rows)
            conf = config(dp_size=ranks, batch_num_tokens=int(mask.sum()), global_batch_size=len(old))
            loss, _ = policy_loss.compute_policy_loss_dapo(old[s], new[s], advantages[s], mask[s], mode, conf)
            total = total + loss / ranks
    return total


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("masked", [(), (1,), (0, 2), (0, 1)])
@pytest.mark.parametrize(("parts", "ranks"), [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_equals_the_reference_however_the_mini_batch_is_cut(mode, masked, parts, ranks):
    tensors = batch(masked)
    assert split_loss(tensors, mode, parts, ranks).item() == pytest.approx(reference(*tensors, mode), rel=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_gradient_does_not_depend_on_the_cut(mode):
    grads = []
    for parts, ranks in ((1, 1), (2, 2)):
        tensors = batch((2,))
        split_loss(tensors, mode, parts, ranks).backward()
        grads.append(tensors[1].grad)
    torch.testing.assert_close(*grads)
    assert not grads[0][2].any()


@pytest.mark.parametrize("mode", [*MODES, "seq-mean-token-sum-norm", "token-sum"])
@pytest.mark.parametrize("info", [{}, {"dp_size": 2, "batch_num_tokens": 30, "global_batch_size": 8}])
def test_without_masking_it_is_vanilla_to_the_bit(mode, info):
    tensors = batch()
    vanilla, old_metrics = core_algos.compute_policy_loss_vanilla(*tensors, mode, config(**info))
    ours, metrics = policy_loss.compute_policy_loss_dapo(*tensors, mode, config(**info))
    assert torch.equal(ours, vanilla)
    assert {k: metrics[k] for k in old_metrics} == old_metrics


def test_masked_tokens_leave_the_denominator():
    """PAIN_POINTS 24: two sequences of 10 tokens, one masked, so 10 and not 20 tokens count."""
    zeros, ones = torch.zeros(2, 10), torch.ones(2, 10)
    mask = torch.tensor([[True], [False]]).expand(2, 10)
    for mode in MODES:
        loss, _ = policy_loss.compute_policy_loss_dapo(zeros, zeros, ones, mask, mode, config())
        assert float(loss) == (-10.0 if mode == "seq-mean-token-sum" else -1.0)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("info", [{}, {"dp_size": 2, "batch_num_tokens": 0, "global_batch_size": 4}])
def test_all_masked_is_zero_with_zero_gradient(mode, info):
    old, new, advantages, mask = batch((0, 1, 2, 3))
    with policy_loss.live_sequences(0):
        loss, metrics = policy_loss.compute_policy_loss_dapo(old, new, advantages, mask, mode, config(**info))
    loss.backward()
    assert float(loss) == 0.0
    assert not new.grad.any()
    assert all(math.isfinite(value) for value in metrics.values())


def test_entropy_term_of_an_all_masked_mini_batch_is_finite():
    """verl aggregates entropy after the policy loss, with the same global_batch_info."""
    old, new, advantages, mask = batch((0, 1, 2, 3))
    conf = config(dp_size=1, batch_num_tokens=0, global_batch_size=4)
    policy_loss.compute_policy_loss_dapo(old, new, advantages, mask, "token-mean", conf)
    assert float(core_algos.agg_loss(torch.ones(4, 5), mask, "token-mean", **conf.global_batch_info)) == 0.0


def test_masked_without_a_global_count_is_refused_for_sequence_means():
    tensors = batch((1,))
    conf = config(dp_size=2, batch_num_tokens=9, global_batch_size=8)
    with pytest.raises(RuntimeError, match="VERL_ENGINE_VENDOR=dapo_recipe"):
        policy_loss.compute_policy_loss_dapo(*tensors, "seq-mean-token-mean", conf)
    policy_loss.compute_policy_loss_dapo(*tensors, "token-mean", conf)


def test_missing_global_numbers_on_two_ranks_stay_an_error():
    with pytest.raises(ValueError, match="required when dp_size > 1"):
        policy_loss.compute_policy_loss_dapo(*batch(), "token-mean", config(dp_size=2))


def test_clip_fractions_come_apart_and_probability_is_reported():
    ratio = torch.tensor(
        [[1.5, 1.1, 0.5, 0.5], [0.5, 0.7, 1.5, 1.0]]
    )  # over, in, under, masked / under, under, over, in
    advantages = torch.tensor([[1.0], [-1.0]]).expand(2, 4)
    mask = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]]).bool()
    old = torch.full((2, 4), math.log(0.25))
    _, metrics = policy_loss.compute_policy_loss_dapo(old, old + ratio.log(), advantages, mask, "token-mean", config())
    assert metrics["actor/clip_frac_high"] == pytest.approx(1 / 7)
    assert metrics["actor/clip_frac_low"] == pytest.approx(2 / 7)
    assert metrics["actor/pg_clipfrac"] == pytest.approx(3 / 7)
    assert metrics["actor/mean_generation_prob"] == pytest.approx(0.25)


def test_is_registered_with_verl():
    assert core_algos.get_policy_loss_fn("dapo") is policy_loss.compute_policy_loss_dapo


def test_live_sequences_are_counted_on_nested_and_padded_masks():
    live_engine = pytest.importorskip("recipe.live_engine")
    rows = [torch.tensor([0, 1, 1]), torch.tensor([0, 0]), torch.tensor([1])]
    assert live_engine.count_live(torch.nested.nested_tensor(rows, layout=torch.jagged)) == 2
    assert live_engine.count_live(torch.tensor([[0, 0], [0, 1]])) == 1


@functools.cache
def actor(mode):
    from verl.utils.config import omega_conf_to_dataclass

    from recipe.compose import compose

    return omega_conf_to_dataclass(compose([f"actor_rollout_ref.actor.loss_agg_mode={mode}"]).actor_rollout_ref.actor)


def jagged(rows):
    return torch.nested.as_nested_tensor(list(rows), layout=torch.jagged)


def as_verl_has_it(masked):
    """The batch of the other tests as verl's engine hands it to its loss: nested, next-token log-probabilities."""
    from tensordict import TensorDict
    from verl.utils import tensordict_utils as tu

    old, new, advantages, _ = batch()
    cut = [lambda values, i=i: values[i, : LENGTHS[i]] for i in range(4)]
    data = TensorDict(
        {
            "prompts": jagged([torch.zeros(2).long()] * 4),
            "responses": jagged([torch.zeros(n).long() for n in LENGTHS]),
            "response_mask": jagged([torch.full((n,), int(i not in masked)) for i, n in enumerate(LENGTHS)]),
            "old_log_probs": jagged([c(old) for c in cut]),
            "advantages": jagged([c(advantages) for c in cut]),
        },
        batch_size=4,
    )
    tokens = sum(n for i, n in enumerate(LENGTHS) if i not in masked)
    tu.assign_non_tensor(data, dp_size=1, batch_num_tokens=tokens, global_batch_size=4)
    # prompt of two tokens: one prediction before the answer's first token, and one after its last
    outputs = {"log_probs": jagged([torch.cat([torch.zeros(1), c(new.detach()), torch.zeros(1)]) for c in cut])}
    return data, outputs


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("masked", [(), (1,), (0, 2), (0, 1, 2, 3)])
def test_through_verls_own_loss_with_the_recipes_configuration(mode, masked):
    from verl.workers.utils.losses import ppo_loss

    data, outputs = as_verl_has_it(masked)
    with policy_loss.live_sequences(4 - len(masked)):
        loss, metrics = ppo_loss(actor(mode), outputs, data)
    assert float(loss) == pytest.approx(reference(*batch(masked), mode), rel=1e-5)
    assert all(math.isfinite(metric.aggregate()) for metric in metrics.values())
