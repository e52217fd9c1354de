"""Turns a checkpoint into a Hugging Face folder, once its shards are seen to be complete.

    python -m recipe.export --checkpoint RUN/checkpoints/global_step_40 --out RUN/model
    python -m recipe.export --checkpoint RUN/checkpoints --out RUN/model      the newest complete checkpoint

A checkpoint saved with `hf_model` in `checkpoint.save_contents` (our default) holds the weights already; otherwise, as
with the published runs, or with --merge, verl's own merger joins the shards, in bfloat16.
"""

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from data_prep.model_folder import give_ordinary_modes
from recipe.checkpoints import TRACKER_FILE, steps, whole
from recipe.stamps import RESOLVED_CONFIG

PROMPT = "What is 7 + 5?"  # where the validation file of the run is not here
_SHARD = re.compile(r"model_world_size_(\d+)_rank_(\d+)\.pt")


def missing_weights(checkpoint: Path) -> list[str]:
    """What keeps a `global_step_N` folder from being exported; empty when nothing does.

    Shards of every rank must be there, whether they are needed or not: where some are missing, the save was
    interrupted, or each node wrote to a disk of its own.
    """
    actor = checkpoint / "actor"
    if not (actor / "huggingface" / "config.json").is_file():
        return ["actor/huggingface/config.json is missing"]
    found = [(int(m[1]), int(m[2])) for path in actor.glob("model_*.pt") if (m := _SHARD.fullmatch(path.name))]
    sizes = {size for size, _ in found}
    if not sizes:
        return [] if any((actor / "huggingface").glob("*.safetensors")) else ["actor/model_world_size_*.pt are missing"]
    if len(sizes) > 1:
        return [f"actor holds shards of several world sizes, {sorted(sizes)}"]
    (size,) = sizes
    names = [f"actor/model_world_size_{size}_rank_{rank}.pt" for rank in range(size)]
    lost = [name for name in names if not whole(checkpoint / name)]
    return [f"{len(lost)} of {size} shards are missing or cut short, such as {lost[0]}"] if lost else []


def choose(folder: Path) -> Path:
    """`folder` itself, or the newest complete checkpoint in it when it is a run's checkpoints folder.

    Raises:
        ValueError: nothing there can be exported; names what is missing.
    """
    candidates = steps(folder) if (folder / TRACKER_FILE).is_file() else [folder]
    problems = []
    for candidate in candidates:
        if not (missing := missing_weights(candidate)):
            return candidate
        problems.append(f"{candidate}: {missing[0]}")
    raise ValueError(
        f"{folder} is not a complete checkpoint of this recipe ({'; '.join(problems) or 'it is empty'}). With several "
        "nodes, trainer.default_local_dir must be on storage that all of them see; copy the missing shards together or "
        "name an older checkpoint"
    )


def export(checkpoint: Path, out: Path, merge: bool = False) -> tuple[str, str]:
    """Write `out`, replacing it only once it is complete and loads; return a question and its greedy answer.

    Raises:
        ValueError: the checkpoint is incomplete, or `out` is something else than a model folder.
        subprocess.CalledProcessError: verl's merger failed.
    """
    checkpoint = choose(checkpoint)
    if out.exists() and not (out / "config.json").is_file():
        raise ValueError(f"--out={out} exists and is no model folder; nothing is overwritten: name another")
    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    huggingface = checkpoint / "actor" / "huggingface"
    if any(huggingface.glob("*.safetensors")) and not merge:
        shutil.copytree(huggingface, partial)
    else:
        words = ["merge", "--backend", "fsdp", "--local_dir", str(checkpoint / "actor"), "--target_dir", str(partial)]
        subprocess.run([sys.executable, "-m", "verl.model_merger", *words], check=True)
    give_ordinary_modes(partial)
    turns = first_prompt(checkpoint)
    answer = greedy_answer(partial, turns)
    shutil.rmtree(out, ignore_errors=True)
    partial.rename(out)
    return turns[-1]["content"], answer


def first_prompt(checkpoint: Path) -> list[dict[str, str]]:
    """The chat turns of the first row that the checkpoint's run validates on, or `PROMPT` where that is not here."""
    plain = [{"role": "user", "content": PROMPT}]
    try:
        config = OmegaConf.load(checkpoint.resolve().parents[1] / RESOLVED_CONFIG)
        files = config.data.val_files
        rows = pq.ParquetFile(files if isinstance(files, str) else files[0]).iter_batches(1, columns=["prompt"])
        turns = next(rows).to_pylist()[0]["prompt"]
        return [{"role": turn["role"], "content": turn["content"]} for turn in turns] or plain
    except (OSError, ValueError, LookupError, AttributeError, TypeError, StopIteration, OmegaConfBaseException):
        return plain  # only a sample: nothing depends on it


def greedy_answer(folder: Path, turns: list[dict[str, str]], max_new_tokens: int = 32) -> str:
    """Load model and tokenizer with transformers and answer greedily; raises what they raise."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto", trust_remote_code=False)
    text = "\n".join(turn["content"] for turn in turns)
    if tokenizer.chat_template:
        text = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
    inputs = tokenizer(text, return_tensors="pt", add_special_tokens=False, return_token_type_ids=False)
    ids = model.generate(**inputs, max_new_tokens=max_new_tokens, do_sample=False)
    return tokenizer.decode(ids[0, inputs["input_ids"].shape[1] :])


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Export a checkpoint as a Hugging Face folder.")
    parser.add_argument("--checkpoint", type=Path, required=True, help="a global_step_N folder, or a run's checkpoints")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--merge", action="store_true", help="join the shards even if the weights are there joined")
    args = parser.parse_args(arguments)
    try:
        question, answer = export(args.checkpoint, args.out, args.merge)
    except ValueError as error:
        parser.exit(2, f"error: {error}\n")
    except subprocess.CalledProcessError as error:
        parser.exit(1, f"error: verl's merger failed with status {error.returncode}\n")
    print(f"{args.out} loads; asked greedily {question!r} it answers {answer!r}")


if __name__ == "__main__":
    main()
