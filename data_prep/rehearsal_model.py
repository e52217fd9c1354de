"""A model of a recipe's own architecture with few, narrow layers, for a dress rehearsal on a CPU.

    python -m data_prep.rehearsal_model --out DIR --architecture qwen3 --positions 32768 [--tokenizer PATH]

Its weights start at random. Then it sees additions for a quarter of a minute, so that some of its answers are right: of
a model that is always wrong the group filter keeps nothing, and a rehearsal would end at the sampler's bound.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    PretrainedConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)

from data_prep.tiny_model import WarmStart, build_tokenizer, save, warm_start

MAX_VALUE, PROBLEMS = 30, 300  # operands from 10 on; recipe.rehearsal prepares the same additions

# Those seen to run on a CPU in transformers, verl and vLLM. Qwen3.5 is not tried: vLLM's kernel takes bfloat16 only.
ARCHITECTURES: dict[str, type[PretrainedConfig]] = {"llama": LlamaConfig, "qwen2": Qwen2Config, "qwen3": Qwen3Config}


def narrow_config(architecture: str, positions: int, tokenizer: PreTrainedTokenizerFast) -> PretrainedConfig:
    """Configuration with grouped key-value heads as the real ones have; 32 is the least head size of vLLM on a CPU."""
    shape: dict[str, Any] = {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 2}
    shape |= {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32}
    return ARCHITECTURES[architecture](
        **shape,
        vocab_size=len(tokenizer),
        max_position_embeddings=positions,
        initializer_range=0.08,  # as data_prep.tiny_model: so narrow a model learns too slowly with 0.02
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Build the model of a dress rehearsal.")
    parser.add_argument("--out", type=Path, required=True, help="folder to write (Hugging Face layout)")
    parser.add_argument("--architecture", choices=sorted(ARCHITECTURES), required=True)
    parser.add_argument("--positions", type=int, required=True, help="max_position_embeddings of the real model")
    parser.add_argument("--tokenizer", help="folder or cached Hub name of the real one; default: one token a byte")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    tokenizer = build_tokenizer()
    if args.tokenizer:
        tokenizer = AutoTokenizer.from_pretrained(args.tokenizer, trust_remote_code=False)
    model = AutoModelForCausalLM.from_config(narrow_config(args.architecture, args.positions, tokenizer))
    settings = WarmStart(
        seed=args.seed,
        max_value=MAX_VALUE,
        problems=PROBLEMS,
        batch_size=32,
        careful_steps=200,
        manners_steps=30,
    )
    warm_start(model, tokenizer, settings)
    save(model, tokenizer, args.out, settings)


if __name__ == "__main__":
    main()
