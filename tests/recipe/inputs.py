"""Data and models by their small files, as the preflight and a resume look at them."""

import json
import struct

import pyarrow as pa
import pyarrow.parquet as pq

from data_prep.card import dump, sha256_of


def write_data(path, prompts, sources=None, golds=None, card=None):
    """A parquet file in the training schema, and a card that describes it unless `card` is None."""
    rows = [
        {
            "data_source": (sources or ["math_dapo"] * len(prompts))[i],
            "prompt": [{"role": "user", "content": text}],
            "reward_model": {"ground_truth": (golds or ["34"] * len(prompts))[i], "style": "rule"},
        }
        for i, text in enumerate(prompts)
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)
    if card is not None:
        content = {"sha256": sha256_of(path), "rows": len(rows), "options": {"template": "answer"}} | card
        path.with_suffix(".card.json").write_text(dump(content))
    return path


def write_model(folder, eos=2, generation_eos=2, tokenizer_eos=2, **config):
    """A model folder by its small files, and one weight file of 2 x 3 + 5 = 11 parameters."""
    folder.mkdir(exist_ok=True)
    shape = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    shape |= {"vocab_size": 300, "intermediate_size": 128, "max_position_embeddings": 4096, "eos_token_id": eos}
    (folder / "config.json").write_text(json.dumps(shape | config))
    if generation_eos is not None:
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": generation_eos}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>"}))
    added = [{"id": tokenizer_eos, "content": "<|end|>"}]
    (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": added, "model": {"vocab": {}}}))
    header = json.dumps({"__metadata__": {}, "a": {"shape": [2, 3]}, "b": {"shape": [5]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    return folder
