"""A short supervised warm start of a pre-trained model on prepared problems: it learns how an answer ends, and when.

    python -m data_prep.warm_start --model DIR --data train.parquet --out DIR [--steps 12 ...]

Each example is the prompt of a row and, as its response, the row's worked solution, if it has one, and the answer line
with its gold. A stage of its own before reinforcement learning, for a model that hardly ever writes the line: evaluate
the model before and after it.
"""

import argparse
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow.parquet as pq
import torch
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from data_prep.errors import DataError
from data_prep.model_folder import check_replaceable, write_model
from data_prep.sft import Example, batches, update

MARK = "warm_start.json"  # the settings, beside the weights


@dataclass(frozen=True)
class Settings:
    """`rows` of the file are seen, in `steps` updates of `batch_size` rows each; the learning rate decays to zero."""

    seed: int = 1
    rows: int = 256
    steps: int = 12
    batch_size: int = 16
    learning_rate: float = 4e-5


def examples(data: Path, tokenizer: PreTrainedTokenizerBase, rows: int, rng: random.Random) -> Iterator[Example]:
    """Yield (prompt ids, response ids) of the first `rows` rows without end, shuffled anew each time."""
    table = pq.read_table(data, columns=["prompt", "reward_model", "extra_info"]).slice(0, rows).to_pylist()
    found = []
    for row in table:
        text = tokenizer.apply_chat_template(row["prompt"], tokenize=False, add_generation_prompt=True)
        lines = [row["extra_info"].get("solution"), f"Answer: {row['reward_model']['ground_truth']}"]
        response = "\n".join(line for line in lines if line) + tokenizer.eos_token
        found.append(tuple(tokenizer(part, add_special_tokens=False)["input_ids"] for part in (text, response)))
    while True:
        rng.shuffle(found)
        yield from found


def warm_start(model: PreTrainedModel, stream: Iterator[Example], pad: int, settings: Settings) -> None:
    """Train `model` in place."""
    rng = random.Random(settings.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=0.0)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, settings.steps)
    feed = batches(stream, settings.batch_size, pad, rng)
    progress = tqdm(range(settings.steps), desc="warm start", mininterval=1.0)
    for _ in progress:
        progress.set_postfix(loss=f"{update(model, optimizer, *next(feed), pad):.3f}", refresh=False)
        decay.step()


def main() -> None:
    """Command line."""
    defaults = Settings()
    parser = argparse.ArgumentParser(description="Warm-start a model on prepared problems.")
    parser.add_argument("--model", type=Path, required=True, help="Hugging Face folder with a chat template")
    parser.add_argument("--data", type=Path, required=True, help="parquet of data_prep")
    parser.add_argument("--out", type=Path, required=True, help="folder to write (Hugging Face layout)")
    for name, value in asdict(defaults).items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    args = parser.parse_args()
    try:
        check_replaceable(args.out, MARK)
    except DataError as error:
        parser.error(str(error))
    for path in (args.model / "config.json", args.data):
        if not path.is_file():
            parser.error(f"{path} does not exist")
    settings = Settings(**{name: getattr(args, name) for name in asdict(defaults)})
    torch.manual_seed(settings.seed)
    tokenizer = AutoTokenizer.from_pretrained(args.model, trust_remote_code=False)
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32, trust_remote_code=False)
    stream = examples(args.data, tokenizer, settings.rows, random.Random(settings.seed))
    warm_start(model, stream, tokenizer.pad_token_id, settings)
    write_model(model, tokenizer, args.out, MARK, asdict(settings))


if __name__ == "__main__":
    main()
