"""What a model's own files say: shape, parameters, context, end-of-text ids. Read without torch or transformers."""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

# Published `config.json` values, for a plan on a machine without the model:
# layers, hidden, heads, key-value heads, head size, feed-forward, vocabulary, positions, tied embeddings.
_PUBLISHED = {
    "Qwen/Qwen2.5-0.5B": (24, 896, 14, 2, 64, 4864, 151936, 32768, True),
    "Qwen/Qwen2.5-0.5B-Instruct": (24, 896, 14, 2, 64, 4864, 151936, 32768, True),
    "Qwen/Qwen2.5-Math-7B": (28, 3584, 28, 4, 128, 18944, 152064, 4096, False),
    "Qwen/Qwen2.5-32B": (64, 5120, 40, 8, 128, 27648, 152064, 131072, False),
    "Qwen/Qwen3-4B-Base": (36, 2560, 32, 8, 128, 9728, 151936, 32768, True),
}
_NEEDED_SIZES = ("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size")
_SIZES = (*_NEEDED_SIZES, "num_key_value_heads", "head_dim", "max_position_embeddings")


@dataclass(frozen=True)
class ModelFacts:
    """Shape of a decoder; `parameters` is None where neither weights nor a plain architecture tell it.

    `attention_layers` are the layers with a key-value cache. The three eos fields are id sets, empty when not stated;
    `eos_generation` is None where there is no generation_config.json.
    """

    source: str
    layers: int
    attention_layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    positions: int | None
    parameters: int | None
    eos_config: frozenset[int] = frozenset()
    eos_generation: frozenset[int] | None = None
    eos_tokenizer: frozenset[int] = frozenset()


def model_folder(config: DictConfig) -> Path | None:
    """The model's folder: the path itself, or the snapshot of a Hub name in the local cache; None when not here."""
    name = str(config.actor_rollout_ref.model.path)
    folder = Path(name).expanduser()
    if (folder / "config.json").is_file():
        return folder
    if folder.is_absolute() or name.startswith((".", "~")) or name.count("/") != 1:
        return None
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(name, "config.json")
    return Path(cached).parent if isinstance(cached, str) else None


def model_facts(config: DictConfig) -> ModelFacts | None:
    """Facts of the model that a recipe names, None when it is neither here nor among the published ones.

    Raises:
        ValueError: a file of the model cannot be read; the message names it.
    """
    folder = model_folder(config)
    if folder is not None:
        return read_folder(folder)
    name = str(config.actor_rollout_ref.model.path)
    return published(name) if name in _PUBLISHED else None


def published(name: str) -> ModelFacts:
    """Facts of a model by its published configuration."""
    layers, hidden, heads, kv, head_dim, intermediate, vocab, positions, tied = _PUBLISHED[name]
    total = dense_parameters(layers, hidden, heads, kv, head_dim, intermediate, vocab, tied)
    source = f"published configuration of {name} (the model is not on this machine)"
    return ModelFacts(
        source, layers, layers, hidden, heads, kv, head_dim, intermediate, vocab, positions, parameters=total
    )


def dense_parameters(
    layers: int, hidden: int, heads: int, kv: int, head_dim: int, intermediate: int, vocab: int, tied: bool
) -> int:
    """Parameters of a dense decoder with gated feed-forward: embeddings, attention, three matrices, norms.

    Query, key and value biases are counted; what a variant adds beyond (query and key norms) is below 0.01 %.
    """
    attention = hidden * head_dim * (2 * heads + 2 * kv) + head_dim * (heads + 2 * kv)
    layer = attention + 3 * hidden * intermediate + 2 * hidden
    return layers * layer + hidden * vocab * (1 if tied else 2) + hidden


def read_folder(folder: Path) -> ModelFacts:
    """Facts of a model folder; raises as `model_facts`."""
    whole = _json(folder / "config.json")
    nested = whole.get("text_config")
    text = nested if isinstance(nested, dict) and nested else whole  # models that also see nest their decoder
    try:
        layers, hidden, heads = text["num_hidden_layers"], text["hidden_size"], text["num_attention_heads"]
        vocab = text["vocab_size"]
    except KeyError as error:
        raise ValueError(f"{folder / 'config.json'} lacks {error}: it is not the configuration of a decoder") from error
    _check_shape(folder / "config.json", text)
    intermediate = text.get("intermediate_size") or 4 * hidden
    kv, head_dim = text.get("num_key_value_heads") or heads, text.get("head_dim") or hidden // heads
    kinds = text.get("layer_types") or ["full_attention"] * layers
    tied = bool(whole.get("tie_word_embeddings", text.get("tie_word_embeddings", False)))
    plain = len(set(kinds)) == 1 and not any("expert" in key for key in text)
    counted = stored_parameters(folder)
    if counted is None and plain:
        counted = dense_parameters(layers, hidden, heads, kv, head_dim, intermediate, vocab, tied)
    generation = folder / "generation_config.json"
    return ModelFacts(
        source=str(folder),
        layers=layers,
        attention_layers=sum(kind != "linear_attention" for kind in kinds),
        hidden=hidden,
        heads=heads,
        kv_heads=kv,
        head_dim=head_dim,
        intermediate=intermediate,
        vocab=vocab,
        positions=text.get("max_position_embeddings"),
        parameters=counted,
        eos_config=_ids(whole.get("eos_token_id", text.get("eos_token_id"))),
        eos_generation=_ids(_json(generation).get("eos_token_id")) if generation.is_file() else None,
        eos_tokenizer=tokenizer_eos(folder),
    )


def _check_shape(path: Path, text: Mapping[str, Any]) -> None:
    """Sizes are whole numbers of at least 1; those that need not be there may be null.

    Raises:
        ValueError: one is not; the message names it.
    """
    for key in _SIZES:
        value = text.get(key)
        if value is None and key not in _NEEDED_SIZES:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{path}: {key}={value!r} must be a whole number of at least 1: fetch the model again")


def stored_parameters(folder: Path) -> int | None:
    """Parameters in the safetensors files, from their headers alone; None without such files."""
    files = sorted(folder.glob("*.safetensors"))
    return sum(map(_count_header, files)) if files else None


def _count_header(path: Path) -> int:
    """Elements of all tensors of a file; the format is 8 bytes of header size, then a JSON header."""
    with path.open("rb") as f:
        try:
            (size,) = struct.unpack("<Q", f.read(8))
            header = json.loads(f.read(min(size, 1 << 28)))
        except (struct.error, ValueError) as error:
            raise ValueError(f"{path} is no safetensors file, or was cut short: fetch the model again") from error
    total = 0
    for name, tensor in header.items():
        if name != "__metadata__":
            elements = 1
            for length in tensor["shape"]:
                elements *= length
            total += elements
    return total


def tokenizer_eos(folder: Path) -> frozenset[int]:
    """Id of the tokenizer's end-of-text token, as a set; empty when its files do not say."""
    path = folder / "tokenizer_config.json"
    if not path.is_file():
        return frozenset()
    config = _json(path)
    token = config.get("eos_token")
    token = token.get("content") if isinstance(token, Mapping) else token
    for number, entry in (config.get("added_tokens_decoder") or {}).items():
        if entry.get("content") == token:
            return frozenset([int(number)])
    fast = folder / "tokenizer.json"
    if token is None or not fast.is_file():
        return frozenset()
    tokenizer = _json(fast)
    for entry in tokenizer.get("added_tokens") or []:
        if entry.get("content") == token:
            return frozenset([entry["id"]])
    vocab = (tokenizer.get("model") or {}).get("vocab")
    return _ids(vocab.get(token)) if isinstance(vocab, Mapping) else frozenset()


def _ids(value: Any) -> frozenset[int]:
    return frozenset(value if isinstance(value, list) else [value]) - {None}


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read ({error}): fetch the model again") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds no JSON object: fetch the model again")
    return content
