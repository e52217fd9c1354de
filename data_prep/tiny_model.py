"""The `tiny` base model: a Qwen2-architecture model of about 1 M parameters that knows addition and is unsure of itself.

It is warm-started by supervised learning on answers in four manners, as a pre-trained model has seen good and bad
ones: careful (column by column, then the answer line), hasty (an answer line with a wrong sum), no answer line, and
rambling (working that never ends). Only the careful manner earns reward, so sampled accuracy starts near its share and
what is left to learn by reinforcement is which manner to use, and when to stop.

    python -m data_prep.tiny_model --out DIR [--seed S]
"""

import argparse
import json
import math
import random
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from data_prep.sources.arithmetic import problems

PAD, EOS, USER, ASSISTANT = "<|endoftext|>", "<|im_end|>", "<|user|>", "<|assistant|>"
CHAT_TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
IGNORED = -100  # label of tokens that carry no loss


@dataclass(frozen=True)
class WarmStart:
    """Settings of the warm start.

    `manners`: share of careful, hasty, line-less and rambling answers, summing to 1. `max_value`: largest operand.
    `steps` of `batch_size` answers each; `learning_rate` is the peak of a linear warm-up and a cosine decay.
    `max_response_tokens`: where rambling is cut.
    """

    seed: int = 1
    max_value: int = 99
    manners: tuple[float, float, float, float] = (0.4, 0.3, 0.15, 0.15)
    steps: int = 400
    batch_size: int = 192
    learning_rate: float = 3e-3
    max_response_tokens: int = 64


def build_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level tokenizer: one token a byte, four special tokens, `<|im_end|>` as eos, and a chat template."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in (PAD, EOS, USER, ASSISTANT)])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=PAD, eos_token=EOS, model_max_length=512)
    fast.chat_template = CHAT_TEMPLATE
    return fast


def build_model(tokenizer: PreTrainedTokenizerFast) -> Qwen2ForCausalLM:
    """A Qwen2 model with random weights; head size 32 is the smallest that vLLM's CPU attention has."""
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=512,
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
        )
    )


def working(a: int, b: int) -> str:
    """Column addition from the right, carries included: `47+85` is `7+5=12 4+8+1=13`."""
    columns, carry = [], 0
    while True:
        x, y = a % 10, b % 10
        columns.append(f"{x}+{y}{'+1' if carry else ''}={x + y + carry}")
        carry, a, b = (x + y + carry) // 10, a // 10, b // 10
        if a == b == 0:
            return " ".join(columns)


def answer(a: int, b: int, manners: tuple[float, ...], rng: random.Random) -> str:
    """One answer to `a+b` in a manner drawn from `manners` (careful, hasty, line-less, rambling)."""
    manner = rng.choices(("careful", "hasty", "line_less", "rambling"), manners)[0]
    if manner == "careful":
        return f"{working(a, b)}\nAnswer: {a + b}"
    if manner == "hasty":
        return f"Answer: {abs(a + b + rng.choice((-10, -2, -1, 1, 2, 10)))}"
    return f"it is {a + b}." if manner == "line_less" else f"{working(a, b)} " * 64


def examples(settings: WarmStart, tokenizer: PreTrainedTokenizerFast, rng: random.Random) -> Iterator[list[list[int]]]:
    """Yield `[prompt ids, response ids]` without end; only problems of the train side, which the held-out never meet."""
    count = 4000 if settings.max_value >= 99 else settings.max_value**2 // 2
    pairs = problems(settings.seed, count, settings.max_value)
    while True:
        a, b = (int(x) for x in rng.choice(pairs)[0].removesuffix("=?").split("+"))
        prompt = f"{USER}{a}+{b}=?{EOS}{ASSISTANT}"
        response = answer(a, b, settings.manners, rng) + EOS
        yield [tokenizer.encode(prompt), tokenizer.encode(response)[: settings.max_response_tokens]]


def batches(stream: Iterator[list[list[int]]], size: int, pad: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield `(input_ids, labels)` of shape (size, length), right-padded; answers of like length share a batch."""
    while True:
        pool = sorted((next(stream) for _ in range(size * 8)), key=lambda e: len(e[0]) + len(e[1]))
        chunks = [pool[i : i + size] for i in range(0, len(pool), size)]
        random.Random(len(pool[0][1])).shuffle(chunks)
        for chunk in chunks:
            length = max(len(p) + len(r) for p, r in chunk)
            ids = torch.tensor([p + r + [pad] * (length - len(p) - len(r)) for p, r in chunk])
            labels = [[IGNORED] * len(p) + r + [IGNORED] * (length - len(p) - len(r)) for p, r in chunk]
            yield ids, torch.tensor(labels)


def warm_start(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, settings: WarmStart) -> float:
    """Train `model` in place and return the last loss (nats a response token)."""
    rng = random.Random(settings.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=0.1, betas=(0.9, 0.98))
    warm, total = settings.steps // 10, settings.steps
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min(1.0, (s + 1) / warm) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * s / total)))
    )
    stream = batches(examples(settings, tokenizer, rng), settings.batch_size, tokenizer.pad_token_id)
    loss = torch.tensor(math.nan)
    progress = tqdm(range(total), desc="warm start", mininterval=1.0)
    for _ in progress:
        ids, labels = next(stream)
        loss = model(input_ids=ids, attention_mask=(ids != tokenizer.pad_token_id).long(), labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        progress.set_postfix(loss=f"{loss.item():.3f}")
    return loss.item()


def save(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, out: Path, settings: WarmStart) -> None:
    """Write a Hugging Face folder at `out`, replacing it in one step once it is complete."""
    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    model.generation_config.update(eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id)
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    (partial / "warm_start.json").write_text(json.dumps(asdict(settings), indent=1) + "\n")
    shutil.rmtree(out, ignore_errors=True)
    partial.rename(out)


def main() -> None:
    """Build, warm-start and save the model."""
    parser = argparse.ArgumentParser(description="Build and warm-start the tiny base model.")
    parser.add_argument("--out", type=Path, required=True, help="folder to write (Hugging Face layout)")
    parser.add_argument("--seed", type=int, default=WarmStart.seed)
    parser.add_argument("--steps", type=int, default=WarmStart.steps)
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    settings = WarmStart(seed=args.seed, steps=args.steps)
    torch.manual_seed(settings.seed)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer)
    warm_start(model, tokenizer, settings)
    save(model, tokenizer, args.out, settings)


if __name__ == "__main__":
    main()
