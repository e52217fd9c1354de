"""Turns a checkpoint into a Hugging Face folder.

    python -m recipe.export --checkpoint RUN/checkpoints/global_step_40 --out RUN/model

A checkpoint saved with `hf_model` in `checkpoint.save_contents` (our default) holds the weights already; otherwise
verl's own merger joins the shards.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path


def export(checkpoint: Path, out: Path) -> None:
    """Write `out`, replacing it only once it is complete.

    Raises:
        ValueError: the checkpoint has no actor, or no model configuration.
        subprocess.CalledProcessError: verl's merger failed.
    """
    huggingface = checkpoint / "actor" / "huggingface"
    if not (huggingface / "config.json").is_file():
        raise ValueError(
            f"{huggingface}/config.json is missing: {checkpoint} is not a complete checkpoint of this recipe"
        )
    if out.exists() and not (out / "config.json").is_file():
        raise ValueError(f"--out={out} exists and is no model folder; nothing is overwritten: name another")
    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    if any(huggingface.glob("*.safetensors")):
        shutil.copytree(huggingface, partial)
    else:
        merge = ["merge", "--backend", "fsdp", "--local_dir", str(checkpoint / "actor"), "--target_dir", str(partial)]
        subprocess.run([sys.executable, "-m", "verl.model_merger", *merge], check=True)
    check_loads(partial)
    shutil.rmtree(out, ignore_errors=True)
    partial.rename(out)


def check_loads(folder: Path) -> None:
    """Load model and tokenizer with transformers and decode one token greedily; raises what they raise."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    ids = torch.tensor([tokenizer.encode("1")])
    model.generate(ids, max_new_tokens=1, do_sample=False)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Export a checkpoint as a Hugging Face folder.")
    parser.add_argument("--checkpoint", type=Path, required=True, help="a global_step_N folder")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    try:
        export(args.checkpoint, args.out)
    except ValueError as error:
        parser.exit(2, f"error: {error}\n")


if __name__ == "__main__":
    main()
