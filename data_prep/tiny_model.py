"""The `tiny` base model: a Qwen2-architecture model of about 1 M parameters that can add but is unsure how.

It is warm-started by supervised learning in two stages. First it learns column addition from careful answers. Then it
sees answers in four manners, as a pre-trained model has seen good and bad ones: careful (column by column, then the
answer line), hasty (an answer line that repeats a number), line-less (no answer line) and rambling (working that never
ends).
Only the careful manner earns reward, so sampled accuracy starts near its share; what reinforcement has to teach is
which manner to use and when to stop, and it must not unlearn to add on the way.

    python -m data_prep.tiny_model --out DIR [--seed S] [--max_value 999 --max_response_tokens 96 ...]
"""

import argparse
import math
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from data_prep.errors import DataError
from data_prep.model_folder import check_replaceable, write_model
from data_prep.sft import Example, batches, update
from data_prep.sources.arithmetic import problems

MARK = "warm_start.json"  # the settings, beside the weights
PAD, EOS, USER, ASSISTANT = "<|endoftext|>", "<|im_end|>", "<|user|>", "<|assistant|>"
CHAT_TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@dataclass(frozen=True)
class WarmStart:
    """Settings of the warm start.

    `manners`: share of careful, hasty, line-less and rambling answers in the second stage, summing to 1. Operands run
    from `min_value` to `max_value`, in `problems` problems. `careful_steps` and `manners_steps`: updates of the stages,
    of `batch_size` answers each; `learning_rate` is the peak of a linear warm-up and a cosine decay, a sixth of it in
    the second stage.
    `max_response_tokens`: where rambling is cut.
    """

    seed: int = 1
    min_value: int = 10
    max_value: int = 99
    problems: int = 5000
    manners: tuple[float, float, float, float] = (0.37, 0.25, 0.19, 0.19)
    careful_steps: int = 420
    manners_steps: int = 120
    batch_size: int = 64
    learning_rate: float = 2e-3
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
            initializer_range=0.08,  # 1 / sqrt(128): with the default of 0.02 so narrow a model takes thrice as long
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
        return f"Answer: {a}"
    return f"{working(a, b)}\nso it is {a + b}." if manner == "line_less" else f"{working(a, b)} " * 5


def examples(
    settings: WarmStart, manners: tuple[float, ...], tokenizer: PreTrainedTokenizerFast, rng: random.Random
) -> Iterator[Example]:
    """Yield (prompt ids, response ids) without end, from problems of the train side alone: never a held-out one."""
    pairs = problems(settings.seed, settings.problems, settings.max_value, min_value=settings.min_value)
    head, tail = around_the_problem(tokenizer)
    while True:
        a, b = (int(x) for x in rng.choice(pairs)[0].removesuffix("=?").split("+"))
        prompt = f"{head}{a}+{b}=?{tail}"
        response = answer(a, b, manners, rng) + tokenizer.eos_token
        yield tokenizer.encode(prompt), tokenizer.encode(response)[: settings.max_response_tokens]


def around_the_problem(tokenizer: PreTrainedTokenizerFast) -> tuple[str, str]:
    """What the tokenizer's chat template puts before and after the text of a single user turn."""
    mark = "PROBLEM"
    turns = [{"role": "user", "content": mark}]
    head, tail = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True).split(mark)
    return head, tail


def warm_start(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, settings: WarmStart) -> None:
    """Train `model` in place: the careful stage, then the manners stage."""
    rng = random.Random(settings.seed)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.1, betas=(0.9, 0.98))
    stages = (
        ("careful", (1.0, 0.0, 0.0, 0.0), settings.careful_steps, settings.learning_rate),
        ("manners", settings.manners, settings.manners_steps, settings.learning_rate / 6),
    )
    for name, manners, steps, peak in stages:
        stream = batches(examples(settings, manners, tokenizer, rng), settings.batch_size, tokenizer.pad_token_id, rng)
        progress = tqdm(range(steps), desc=f"warm start, {name}", mininterval=1.0)
        for step in progress:
            for group in optimizer.param_groups:
                group["lr"] = peak * min(1.0, (step + 1) / 30) * (0.05 + 0.95 * _cosine(step / steps))
            progress.set_postfix(
                loss=f"{update(model, optimizer, *next(stream), tokenizer.pad_token_id):.3f}", refresh=False
            )


def _cosine(progress: float) -> float:
    return 0.5 * (1.0 + math.cos(math.pi * progress))


def save(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, out: Path, settings: WarmStart) -> None:
    """Write a Hugging Face folder at `out`, replacing it in one step once it is complete."""
    model.generation_config.update(eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id)
    write_model(model, tokenizer, out, MARK, asdict(settings))


def main() -> None:
    """Build, warm-start and save the model."""
    parser = argparse.ArgumentParser(description="Build and warm-start the tiny base model.")
    parser.add_argument("--out", type=Path, required=True, help="folder to write (Hugging Face layout)")
    parser.add_argument("--seed", type=int, default=WarmStart.seed)
    parser.add_argument("--min_value", type=int, default=WarmStart.min_value, help="least operand")
    parser.add_argument("--max_value", type=int, default=WarmStart.max_value, help="largest operand")
    parser.add_argument("--careful_steps", type=int, default=WarmStart.careful_steps, help="updates of the first stage")
    parser.add_argument("--max_response_tokens", type=int, default=WarmStart.max_response_tokens)
    args = parser.parse_args()
    try:
        check_replaceable(args.out, MARK)
    except DataError as error:
        parser.error(str(error))
    settings = WarmStart(**{name: value for name, value in vars(args).items() if name != "out"})
    torch.manual_seed(settings.seed)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer)
    warm_start(model, tokenizer, settings)
    save(model, tokenizer, args.out, settings)


if __name__ == "__main__":
    main()
