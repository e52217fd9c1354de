"""A number with an optional unit: "1,000.99 m^2", "36 dollars", "7.2 percent", "2 million"."""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from reward.exact import rational
from reward.latex import DOLLAR
from reward.prose import harmless
from reward.units import MULTIPLIERS, NUMBER_WORDS, canonical, is_unit, lookup

_SIGNS = "%\u20ac\u00a3\u00a5\u00a2\u00b0\x02"
_SPLIT = re.compile(rf"((?:\\[A-Za-z]+|[^A-Za-z\\{_SIGNS}])+?) ?((?:\^\\circ|[A-Za-z{_SIGNS}]).*)?")
_CURRENCY = "\u20ac\u00a3\u00a5\u00a2" + DOLLAR


@dataclass(frozen=True)
class Quantity:
    """An exact value and the canonical name of its unit ("" when it has none, "percent" for ``%``)."""

    value: Fraction
    unit: str = ""


@lru_cache(maxsize=8192)
def quantity(text: str, sums: bool = False) -> Quantity | None:
    """Read normalised ``text`` as one number with an optional unit; None when it is anything else.

    A number glued to letters ("34a", "2k") is none; neither is one with words that hedge or change it ("not 34").
    """
    value = rational(text, sums)
    if value is not None:
        return Quantity(value)
    if text.lower() in NUMBER_WORDS:
        return Quantity(Fraction(NUMBER_WORDS[text.lower()]))
    text = re.sub(r"^(?:negative|minus) (?=[0-9\\.(])", "-", text, flags=re.IGNORECASE)
    text = text.replace("\\%", "%").strip()
    sign, body = (-1, text[1:].strip()) if text[:1] == "-" else (1, text)
    unit = ""
    if body[:1] and body[0] in _CURRENCY:
        unit, body = canonical(body[0]), body[1:].strip()
        if body[:1] == "-":
            sign, body = -sign, body[1:].strip()
    found = _SPLIT.fullmatch(body)
    if found is None:
        return None
    number, rest = found.group(1), (found.group(2) or "").strip()
    value = rational(number.strip(), sums)
    if value is None:
        return None
    tail = _unit_of(rest, glued=body[len(number) : len(number) + 1] != " ") if rest else (1, "")
    if tail is None or (unit and tail[1] and tail[1] != unit):
        return None
    return Quantity(sign * value * tail[0], unit or tail[1])


def _unit_of(rest: str, glued: bool) -> tuple[int, str] | None:
    """Multiplier and unit in the words behind a number; None when they are no unit and not harmless either."""
    factor = 1
    words = rest.split()
    while words and words[0].lower() in MULTIPLIERS and not glued:
        factor, words = factor * MULTIPLIERS[words[0].lower()], words[1:]
    rest = " ".join(words)
    if not rest:
        return factor, ""
    if is_unit(rest):
        letter = len(words[0].split("^")[0]) == 1 and words[0][0].isalpha()
        return None if glued and letter and "^" not in rest else (factor, canonical(rest))
    if glued and not (lookup(re.split(r"[^A-Za-z%]", rest)[0]) and len(words[0]) > 1):
        return None
    if not harmless(rest) or (re.fullmatch(r"[A-Za-z]\.?", words[0]) and lookup(words[0]) is None):
        return None
    return factor, canonical(re.sub(r"\(.*?\)", "", rest))


def same_quantity(gold: Quantity, pred: Quantity) -> bool:
    """Equal values; units must agree when both have one; a percentage may be written as its decimal value."""
    if gold.unit and pred.unit and not _same_unit(gold.unit, pred.unit):
        return False
    if gold.value == pred.value:
        return True
    if gold.unit == "percent" and not pred.unit:
        return gold.value == pred.value * 100
    return pred.unit == "percent" and not gold.unit and pred.value == gold.value * 100


def _same_unit(one: str, other: str) -> bool:
    """Equal names, or one a longer phrase about the other ("apple", "apple in the basket")."""
    return one == other or one.startswith(other + " in") or other.startswith(one + " in")


_TAIL = re.compile(
    r"(.*?[0-9A-Za-z)}|]) ?((?:(?:square|sq\.?|cubic|cu\.?) )?[A-Za-z]+(?: per [a-z]+|/[a-z]+)?(?: ?\^ ?\{?[0-9]\}?)?)"
)


@lru_cache(maxsize=8192)
def split_unit(text: str) -> tuple[str, str]:
    """Expression and canonical unit of normalised ``text``; the unit is "" when there is none.

    A single letter counts as a unit only behind an expression without variables; a word must be a known unit.
    """
    found = _TAIL.fullmatch(text)
    if found is None or not is_unit(found.group(2)):
        return text, ""
    body, unit = found.group(1), found.group(2)
    letters = re.sub(r"\\[A-Za-z]+", "", body)
    spaced = text[len(body) : len(body) + 1] == " "
    if not spaced or (len(unit.split("^")[0].strip()) == 1 and re.search(r"[A-Za-z]", letters)):
        return text, ""
    return body, canonical(unit)


def units_agree(one: str, other: str) -> bool:
    """Whether two canonical units are the same or one of them is missing."""
    return not one or not other or _same_unit(one, other)
