"""How many tokens a prompt takes under a model's own chat template, as verl counts them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from data_prep.errors import DataError

# Files of which one is in every tokenizer's folder; without them transformers loads one that knows hardly a token.
_VOCABULARIES = (
    "tokenizer.json", "*.model", "vocab.*", "merges.txt", "*.spm", "tekken.json", "*.tiktoken", "tokenization_*.py",
)  # fmt: skip


def has_tokenizer(folder: Path) -> bool:
    """Whether a folder holds a tokenizer's vocabulary."""
    return any(next(folder.glob(pattern), None) for pattern in _VOCABULARIES)


class TokenCounter:
    """Counts the tokens of prompts."""

    def __init__(self, path: str, template_options: dict[str, Any]) -> None:
        """Load the tokenizer of `path`; `template_options` go to its chat template, as `enable_thinking` does.

        Raises:
            DataError: there is no tokenizer, or it has no chat template.
        """
        folder = Path(path).expanduser()
        if folder.is_dir() and not has_tokenizer(folder):
            remedy = "Give the folder of the model that is trained, with its tokenizer.json"
            raise DataError(f"tokenizer={path!r} has no vocabulary, such as tokenizer.json", remedy=remedy)
        from transformers import AutoTokenizer

        try:
            self._tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise DataError(f"tokenizer={path!r} cannot be loaded ({error!s:.200})") from error
        if not getattr(self._tokenizer, "chat_template", None):
            remedy = "Use the tokenizer of the model that is trained, with its chat template"
            raise DataError(f"tokenizer={path!r} has no chat template", remedy=remedy)
        self._path = path
        self._options = template_options

    def count(self, prompts: list[list[dict[str, str]]]) -> list[int]:
        """Return the tokens of each list of messages, generation prompt included.

        Raises:
            DataError: a prompt has no token: the folder has no vocabulary, of which transformers says nothing.
        """
        if not prompts:
            return []
        texts = self._tokenizer.apply_chat_template(
            prompts, add_generation_prompt=True, tokenize=False, **self._options
        )
        ids = self._tokenizer(texts, add_special_tokens=False, return_attention_mask=False)["input_ids"]
        if any(len(row) == 0 for row in ids):
            remedy = "Give the folder of the model that is trained, with its tokenizer.json"
            raise DataError(f"tokenizer={self._path!r} makes 0 tokens of a prompt: it has no vocabulary", remedy=remedy)
        return [len(row) for row in ids]


def statistics(lengths: Sequence[int]) -> dict[str, float] | None:
    """Return count, max, p99 (nearest rank) and mean of prompt lengths in tokens; None when none was measured."""
    if not lengths:
        return None
    ranked = sorted(lengths)
    p99 = ranked[-(-99 * len(ranked) // 100) - 1]
    return {"count": len(ranked), "max": ranked[-1], "p99": p99, "mean": round(sum(ranked) / len(ranked), 2)}
