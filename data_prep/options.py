"""What a preparation may be told, and the checks that need no data."""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from data_prep.errors import DataError
from data_prep.templates import TEMPLATES

CONFLICTS = ("error", "drop", "keep_first")
BAD_ROWS = ("error", "drop")
LANGUAGES = ("en", "all")
_OF_THE_RUN = ("out", "overwrite", "progress", "source")  # do not bear on the rows, or stand elsewhere in the card


@dataclass(frozen=True)
class Options:
    """One preparation. The command line in `prepare.py` explains each field; defaults are the command line's too."""

    source: str
    out: Path
    input: list[str] = field(default_factory=list)
    revision: str = "main"
    name: str | None = None
    data_source: str | None = None
    template: str = "answer"
    lang: str = "all"
    split: list[str] = field(default_factory=list)
    holdout: int = 0
    seed: int = 0
    conflicts: str = "error"
    bad_rows: str = "error"
    keep_repeats: bool = False
    tokenizer: str | None = None
    max_prompt_tokens: int | None = None
    chat_template_kwargs: dict[str, Any] = field(default_factory=dict)
    decontaminate: list[Path] = field(default_factory=list)
    train_batch_size: int = 512
    problem_column: str = "problem"
    answer_column: str = "answer"
    answers: str = "any"
    train_rows: int = 2000
    test_rows: int = 200
    min_value: int = 0
    max_value: int = 99
    operators: str = "+"
    overwrite: bool = False
    progress: bool = True

    def __post_init__(self) -> None:
        """Check the options against each other.

        Raises:
            DataError: a value is unknown, too small, or at odds with another.
        """
        self._check_choices()
        self._check_numbers()
        if self.max_prompt_tokens is not None and self.tokenizer is None:
            raise DataError(
                f"max_prompt_tokens={self.max_prompt_tokens} needs a tokenizer", remedy="Give --tokenizer PATH"
            )
        if self.keep_repeats:
            self._check_keep_repeats()

    def _check_choices(self) -> None:
        choices = {"template": tuple(TEMPLATES), "lang": LANGUAGES, "conflicts": CONFLICTS, "bad_rows": BAD_ROWS}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise DataError(f"{name}={getattr(self, name)!r} is unknown", remedy=f"Use one of {allowed}")

    def _check_numbers(self) -> None:
        for name, least in {"holdout": 0, "train_batch_size": 1, "max_prompt_tokens": 1, "train_rows": 0}.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise DataError(f"{name}={value} is too small", remedy=f"Use {least} or more")

    def _check_keep_repeats(self) -> None:
        """Rows that are kept byte for byte cannot also be changed or chosen."""
        defaults = {f.name: f.default for f in fields(self)}
        plain = ("template", "lang", "holdout", "data_source", "max_prompt_tokens")
        changed = [name for name in plain if getattr(self, name) != defaults[name]]
        changed += [name for name in ("split", "decontaminate") if getattr(self, name)]
        if changed:
            raise DataError(
                f"keep_repeats keeps every row as it is, {', '.join(changed)} would change or choose rows",
                remedy="Leave one of them out",
            )

    def stated(self) -> dict[str, Any]:
        """Return the options that bear on the rows, for the card: file names without folders, nothing of the run."""
        found = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _OF_THE_RUN}
        found["input"] = [Path(text).name for text in self.input]
        found["decontaminate"] = [Path(path).name for path in self.decontaminate]
        found["tokenizer"] = Path(self.tokenizer).name if self.tokenizer else None
        return found
