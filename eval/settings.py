"""What samples were asked with, and when two sets of samples may be put together or compared."""

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eval.problems import Problem, hashes
from recipe.provenance import commit

_ALWAYS_THE_SAME = (
    "vllm",
    "prompt_hash",
    "data_hash",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "max_tokens",
    "chat_template_kwargs",
)
# Samples may be added to a file only if these are the same.
SAME_FILE = ("model", "model_fingerprint", "seed", *_ALWAYS_THE_SAME)
# Two models, or two seeds, may be compared only if these are the same.
COMPARABLE = (*_ALWAYS_THE_SAME, "n", "grader")
_MISSING = object()


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters: `n` samples a problem, `max_tokens` response tokens each; every sample has its own seed.

    All are sent with every request: of one left out, vLLM takes what the model's `generation_config.json` says
    (Qwen2.5-7B-Instruct: `top_k` 20, `repetition_penalty` 1.05), and verl does not sample so.
    """

    n: int = 4
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 64
    seed: int = 1
    top_k: int = -1
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        """Refuse values that no server takes."""
        if self.n < 1 or self.max_tokens < 1:
            raise ValueError(f"n={self.n} and max_tokens={self.max_tokens} must be at least 1")
        if self.temperature < 0 or not 0 < self.top_p <= 1:
            raise ValueError(f"temperature={self.temperature} must be >= 0 and top_p={self.top_p} in (0, 1]")
        if self.top_k < -1 or not 0 <= self.min_p <= 1 or self.repetition_penalty <= 0:
            raise ValueError(
                f"top_k={self.top_k} must be at least -1 (all tokens), min_p={self.min_p} in [0, 1] and "
                f"repetition_penalty={self.repetition_penalty} above 0"
            )

    def as_settings(self) -> dict[str, Any]:
        """Flat, for a settings file."""
        return asdict(self)


def describe(
    model: str,
    test_file: Path,
    problems: list[Problem],
    sampling: Sampling,
    vllm: str | None,
    system: str | None = None,
    chat_template_kwargs: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """What is written beside the samples. `vllm` is the version, None when the server does not tell."""
    return {
        "model": model,
        "model_fingerprint": fingerprint(model),
        "vllm": vllm,
        "test_file": str(test_file),
        "problems": len(problems),
        **hashes(problems, system),
        **sampling.as_settings(),
        "system": system,
        "chat_template_kwargs": chat_template_kwargs,
        "commit": commit(),
    }


def sample_seed(seed: int, digest: str, sample: int) -> int:
    """Seed of one sample: 31 bits that depend on the run's seed, the problem and the sample's number only."""
    raw = hashlib.sha256(f"{seed}/{digest}/{sample}".encode()).digest()
    return int.from_bytes(raw[:4], "big") >> 1


def differences(one: dict[str, Any], other: dict[str, Any], keys: tuple[str, ...]) -> list[str]:
    """One line for each of `keys` that differs, e.g. `top_p: 0.7 and 1.0`."""
    found = []
    for key in keys:
        a, b = one.get(key, _MISSING), other.get(key, _MISSING)
        if a != b:
            found.append(f"{key}: {_shown(a)} and {_shown(b)}")
    return found


def _shown(value: Any) -> str:
    return "not recorded" if value is _MISSING else repr(value)


def fingerprint(model: str) -> str | None:
    """12 hex digits over names, sizes and times of a local model folder's files; None for what is no folder here.

    A model exported again under the same name is another model, and its samples must not be added to the old ones.
    """
    folder = Path(model)
    if not (folder / "config.json").is_file():
        return None
    found = [(p.name, p.stat().st_size, p.stat().st_mtime_ns) for p in sorted(folder.iterdir()) if p.is_file()]
    return hashlib.sha256(repr(found).encode()).hexdigest()[:12]
