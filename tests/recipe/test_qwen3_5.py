"""What can be seen of Qwen3.5 without its weights: a narrow model of its architecture under verl's patches."""

import pytest

torch = pytest.importorskip("torch")
from transformers.models.qwen3_5 import Qwen3_5Config, Qwen3_5ForConditionalGeneration  # noqa: E402
from verl.models.transformers.monkey_patch import apply_monkey_patch  # noqa: E402
from verl.utils.model import get_hf_auto_model_class  # noqa: E402

EOS, VOCABULARY = 7, 64
TEXT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,  # three of linear attention, one of full attention, as in the real one
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "eos_token_id": EOS,
}
VISION = {"depth": 1, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 64}


@pytest.fixture(scope="module")
def model():
    """As verl's FSDP engine makes it: random weights, its patches, sdpa."""
    torch.manual_seed(0)
    config = Qwen3_5Config(text_config=TEXT, vision_config=VISION, architectures=["Qwen3_5ForConditionalGeneration"])
    made = get_hf_auto_model_class(config).from_config(config, attn_implementation="sdpa")
    assert isinstance(made, Qwen3_5ForConditionalGeneration)
    apply_monkey_patch(made, ulysses_sp_size=1, use_remove_padding=False)
    return made


def log_probs(model, ids, mask):
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    logits = model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False).logits
    return torch.log_softmax(logits[:, :-1], -1).gather(-1, ids[:, 1:, None])[..., 0]


def test_both_kinds_of_layer_are_there(model):
    assert model.config.text_config.layer_types == ["linear_attention"] * 3 + ["full_attention"]


def test_a_token_sees_only_what_comes_before_it(model):
    ids = torch.randint(8, VOCABULARY, (2, 12))
    changed = ids.clone()
    changed[:, 8] = (ids[:, 8] + 1) % VOCABULARY
    before, after = (log_probs(model, each, torch.ones_like(ids)) for each in (ids, changed))
    torch.testing.assert_close(before[:, :7], after[:, :7])
    assert not torch.allclose(before[:, 8:], after[:, 8:])


def test_padding_behind_an_answer_changes_nothing(model):
    ids = torch.randint(8, VOCABULARY, (1, 12))
    padded = torch.cat([ids, torch.zeros(1, 5, dtype=ids.dtype)], 1)
    mask = (torch.arange(17) < 12).long()[None]
    alone = log_probs(model, ids, torch.ones_like(ids))
    torch.testing.assert_close(log_probs(model, padded, mask)[:, :11], alone, atol=1e-5, rtol=1e-4)


def test_every_weight_of_the_language_model_gets_a_gradient(model):
    ids = torch.randint(8, VOCABULARY, (2, 12))
    log_probs(model, ids, torch.ones_like(ids)).sum().backward()
    language = {name: p for name, p in model.named_parameters() if "visual" not in name}
    assert {name for name, p in language.items() if p.grad is None or not p.grad.isfinite().all()} == set()
    assert any("linear_attn" in name for name in language)
