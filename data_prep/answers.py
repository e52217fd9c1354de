"""Canonical gold answers: one spelling of a number, and a refusal of golds that are none."""

import re
from decimal import Decimal
from typing import Any

from data_prep.errors import DataError

KINDS = ("integer", "number", "any")
_NUMBER = re.compile(r"[+-]?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d*)?|[+-]?\.\d+")
_PLACEHOLDER = re.compile(
    r"[\W_]*(?:invalid|none|null|nan|n/?a|unknown|undefined|missing|error|tbd|todo|answer|no answer)?[\W_]*",
    re.IGNORECASE,
)


def canonical(value: Any, kind: str = "any", column: str = "answer") -> str:
    """Return the canonical string of a gold: `33` for `"033"`, `33`, `33.0` or `"$33$"`; `1000` for `"1,000"`.

    `kind` says what is accepted: `integer`, `number` (also decimals, without trailing zeros) or `any` text. Text keeps
    its spelling but for white space and an outer pair of dollar signs.

    Raises:
        DataError: the value is missing, a placeholder such as `[INVALID]`, of a wrong type, or not of the kind.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        raise DataError(f"needs a gold answer (text or a number), has {value!r}", column=column)
    text = " ".join(str(value).replace("\u2212", "-").split())
    if len(text) > 2 and text[0] == text[-1] == "$" and "$" not in text[1:-1]:
        text = text[1:-1].strip()
    number = _canonical_number(text)
    if number is None and _PLACEHOLDER.fullmatch(text):
        raise DataError(f"{value!r} stands for no answer", column=column, remedy="Give the row a gold or remove it")
    if kind == "any":
        return text if number is None else number
    if number is None or (kind == "integer" and not re.fullmatch(r"-?\d+", number)):
        raise DataError(f"needs a gold of kind {kind}, has {value!r}", column=column)
    return number


def kind_of(answer: str) -> str:
    """Return what a canonical answer is: `integer`, `decimal`, or `text`."""
    number = _canonical_number(answer)
    return "text" if number is None else "decimal" if "." in number else "integer"


def _canonical_number(text: str) -> str | None:
    if not text.isascii() or not _NUMBER.fullmatch(text):
        return None
    plain = f"{Decimal(text.replace(',', '')):f}"
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    return "0" if plain in ("-0", "") else plain
