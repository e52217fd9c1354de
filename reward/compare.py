"""Decide whether one answer equals the gold, both normalised. Exact arithmetic first, mathematics in a worker last."""

import re
from collections.abc import Callable
from functools import lru_cache

from reward.latex import squeeze
from reward.prose import harmless, strip_lead, words_of
from reward.quantity import Quantity, quantity, same_quantity, split_unit, units_agree
from reward.shape import Shape, interval_of, shape
from reward.units import NUMBER_WORDS

# Asks whether two expressions (operation "equal"), equations or relations are the same mathematics.
Symbolic = Callable[[str, str, str], bool]

_BASE = re.compile(r"\(?([0-9A-Fa-f]+)\)?_ ?\{? ?([0-9]{1,2}|[a-z]{2,7}) ?\}?")
_CLOCK = re.compile(r"([0-9]{1,2}) ?: ?([0-9]{2}) ?(?:([ap])\.? ?m\.?)?", re.IGNORECASE)
_NAME = r"(?:[A-Za-z]|\\[A-Za-z]+)(?:_\{?[A-Za-z0-9]+\}?)?'?(?:\([A-Za-z0-9, ]{1,12}\))?"
_LABEL = re.compile(
    rf"{_NAME}(?: ?: ?{_NAME})*|\( ?{_NAME}(?: ?, ?{_NAME})+ ?\)|[A-Za-z ]+|{_NAME}(?: ?[-+*] ?{_NAME})+"
    rf"|[A-Za-z\\]+ ?\{{?[A-Za-z ]*\}}?"
)
_WORDS = re.compile(r"[A-Za-z][A-Za-z'\- ]*[A-Za-z]\.?")
_CHOICE = re.compile(r"\(?([A-Z])\)?")
_SINGLE = re.compile(r"[A-Za-z](?:_\{?[A-Za-z0-9]+\}?)?")
_LABELS = re.compile(r"\(?[A-Z]\)?(?:(?: ?, ?(?:and )?| and | ?)\(?[A-Z]\)?)+")
_MAX_PAIRS = 20


@lru_cache(maxsize=4096)
def gold_quantity(gold: str) -> Quantity | None:
    """The gold as an exact number with unit, sums such as ``1/2 + 2/3`` included; None when it is no number."""
    return quantity(gold, True)


def is_text(text: str) -> bool:
    """Whether an answer is words or a label ("east", "ACD"), not mathematics."""
    if re.fullmatch(r"\(?[A-Z]{1,6}\)?", text) or _LABELS.fullmatch(text):
        return True
    return _WORDS.fullmatch(text) is not None and max(len(word) for word in text.split()) >= 3


def same_spelling(gold: str, pred: str) -> bool:
    """Equal up to spaces and needless braces."""
    return bool(pred) and squeeze(gold) == squeeze(pred)


def equal(gold: str, pred: str, symbolic: Symbolic, depth: int = 0) -> bool:
    """Whether ``pred`` means the same as ``gold``.

    Args:
        gold: normalised gold, or a part of it.
        pred: normalised answer, or the matching part of it.
        symbolic: mathematics of last resort; asked for single expressions, equations and relations only.
        depth: nesting of parts so far.
    """
    if depth > 6 or not pred:
        return False
    if same_spelling(gold, pred):
        return True
    gold_number = gold_quantity(gold)
    if gold_number is not None:
        return _equals_number(gold, gold_number, pred, symbolic)
    if is_text(gold):
        return same_text(gold, pred)
    if _BASE.fullmatch(gold):
        return _same_base(gold, pred)
    if _CLOCK.fullmatch(gold):
        return _same_clock(gold, pred)
    lead = strip_lead(pred)
    return lead is not None and _equal_shapes(gold, lead, symbolic, depth)


def _equals_number(gold: str, number: Quantity, pred: str, symbolic: Symbolic) -> bool:
    """Number against answer: exact when the answer is a number; whole numbers are never compared symbolically."""
    value = answer_quantity(pred)
    if value is not None:
        return same_quantity(number, value)
    if number.value.denominator == 1 or number.unit:
        return False
    form = shape(pred)
    if form.kind == "equation" and _LABEL.fullmatch(form.items[0]):
        return equal(gold, form.items[-1], symbolic)
    has_words = re.search(r"[a-z]{3}", re.sub(r"\\[a-z]+", "", pred)) is not None
    return form.kind == "atom" and not has_words and symbolic("equal", gold, pred)


def answer_quantity(pred: str) -> Quantity | None:
    """An answer as one number: bare, bracketed, behind harmless words, or the end of a consistent ``a = b`` chain."""
    value = quantity(pred)
    if value is not None:
        return value
    form = shape(pred)
    if form.kind == "set" and len(form.items) == 1:
        return quantity(form.items[0])
    if form.kind == "equation":
        return _end_of_chain(form.items)
    bare = re.sub(r"^[(\[{]+|[)\]}]+$", "", pred) if form.kind == "atom" else pred
    lead = strip_lead(bare)
    return None if lead is None or not lead else quantity(lead)


def _end_of_chain(sides: tuple[str, ...]) -> Quantity | None:
    """Number at the end of an equation chain; None when another side is a different number or no harmless name."""
    if _SINGLE.fullmatch(sides[-1]):  # "42 = n"
        sides = (*sides[1:], sides[0])
    last = answer_quantity(sides[-1])
    sides = sides[:-1]
    if last is None:
        return None
    for side in sides:
        value = quantity(side, True)
        if value is not None and value.value != last.value and not same_quantity(value, last):
            return None
        if value is None and not _names_something(side):
            return None
    return last


def _names_something(side: str) -> bool:
    """Whether one side of an equation is a name or an expression: harmless words, or symbols without words.

    One variable with a number or a sign ("-x", "2x") is not: the equation is not solved yet.
    """
    bare = re.sub(r"_ ?(?:\{[^{}]*\}|\w)|\([^()]*\)|\\[A-Za-z]+", "", side)
    if len(re.findall(r"[A-Za-z]+", bare)) == 1 and re.search(r"[-0-9/^]", bare) and "\\" not in side:
        return False
    words = [word for word in words_of(side) if len(word) > 1]
    return (harmless(side) or strip_lead(side + " ") is not None) if not re.search(r"[0-9]", side) else not words


def same_text(gold: str, pred: str) -> bool:
    """Words and labels: case and brackets do not matter; "(E) 34" names choice E; "The direction is east" says east."""
    gold_text, pred_text = _plain_text(gold), _plain_text(pred)
    if gold_text == pred_text or f"{gold_text}s" == pred_text or gold_text == f"{pred_text}s":
        return True
    choice = _CHOICE.fullmatch(gold)
    if choice is not None:
        return (
            re.match(
                rf"(?:[Oo]ption |[Cc]hoice )?(?:\({choice[1]}\)|{choice[1]}[).:]|{choice[1]}$)(?!.*\b[A-Z]\b)", pred
            )
            is not None
        )
    if _LABELS.fullmatch(gold):
        if _LABELS.fullmatch(pred) is None:
            return False
        one, other = re.findall(r"[A-Z]", gold), re.findall(r"[A-Z]", pred)
        choices = set(one) <= set("ABCDEFGH") or re.search(r"[A-Z][^A-Z]+[A-Z]", gold) is not None
        return sorted(one) == sorted(other) if choices else one == other  # "NO" is a word, "ACD" a set of choices
    said = re.fullmatch(r"[a-z' ]*\b(?:is|are|answer|be)\b:? (.+)", pred_text)
    return said is not None and _plain_text(said.group(1)) == gold_text and strip_lead(pred + " ") is not None


def _plain_text(text: str) -> str:
    text = re.sub(r"\\[ ,;!]|[(){}\[\]\"']", "", text).strip(" .")
    return re.sub(r"^(?:the|an|a) ", "", re.sub(r"\s+", " ", text).lower())


def _same_base(gold: str, pred: str) -> bool:
    """Numbers written with their base agree in digits and base."""
    one, other = _BASE.fullmatch(gold), _BASE.fullmatch(pred)
    if one is None or other is None or one[1] != other[1]:
        return False
    bases = [str(NUMBER_WORDS.get(match[2], match[2])) for match in (one, other)]
    return bases[0] == bases[1]


def _same_clock(gold: str, pred: str) -> bool:
    """Times of day or two-part ratios; "p.m." may be missing."""
    one, other = _CLOCK.fullmatch(gold), _CLOCK.fullmatch(pred)
    if one is None or other is None or (int(one[1]), one[2]) != (int(other[1]), other[2]):
        return False
    return not one[3] or not other[3] or one[3].lower() == other[3].lower()


def _equal_shapes(gold: str, pred: str, symbolic: Symbolic, depth: int) -> bool:
    """Compare by outer form."""
    one, other = shape(gold), shape(pred)
    if one.kind == "equation":
        return _equal_equations(one, other, gold, pred, symbolic, depth)
    if other.kind == "equation" and _LABEL.fullmatch(other.items[0]):
        return equal(gold, other.items[-1], symbolic, depth + 1)
    if "relation" in (one.kind, other.kind):
        return _equal_relations(one, other, gold, pred, symbolic, depth)
    if one.kind in ("list", "set") and other.kind in ("list", "set"):
        return _equal_lists(one.items, other.items, symbolic, depth)
    if one.kind == "set" and len(one.items) == 1 and other.kind == "atom":
        return equal(one.items[0], pred, symbolic, depth + 1)
    if one.kind == "union" and other.kind == "union":
        return _same_items(one.items, other.items, symbolic, depth)
    if {one.kind, other.kind} == {"matrix", "tuple"}:
        return _vector(one) and _vector(other) and _in_order(one.items, other.items, symbolic, depth)
    if one.kind == "tuple" and other.kind == "list" and one.mark == "()":
        pairs = _named(other.items)
        names = {name for name, _ in pairs}
        if "" not in names and len(names) == len(pairs):  # "x = 2, y = 3"
            return _in_order(one.items, tuple(value for _, value in sorted(pairs)), symbolic, depth)
        return len(one.items) > 2 and _in_order(one.items, other.items, symbolic, depth)
    if one.kind != other.kind or one.mark != other.mark:
        return False
    if one.kind == "atom":
        return _equal_atoms(one.items[0], other.items[0], symbolic)
    return _in_order(one.items, other.items, symbolic, depth)


def _vector(form: Shape) -> bool:
    return form.mark in ("()", "[]") or set(form.mark.split(",")) == {"1"} or "," not in form.mark


def _in_order(one: tuple[str, ...], other: tuple[str, ...], symbolic: Symbolic, depth: int) -> bool:
    return len(one) == len(other) and all(equal(a, b, symbolic, depth + 1) for a, b in zip(one, other, strict=True))


def _equal_atoms(gold: str, pred: str, symbolic: Symbolic) -> bool:
    """Single expressions, units apart; words among them are no mathematics."""
    (gold, unit), (pred, other) = split_unit(gold), split_unit(pred)
    if not units_agree(unit, other):
        return False
    if (unit or other) and same_spelling(gold, pred):
        return True
    if is_text(pred) or re.search(r"[A-Za-z]{4}", re.sub(r"\\[A-Za-z]+", "", gold + " " + pred)):
        return False
    return symbolic("equal", gold, pred)


def _equal_equations(one: Shape, other: Shape, gold: str, pred: str, symbolic: Symbolic, depth: int) -> bool:
    """``x = 5`` against ``5`` or ``x = 5``; two equations may differ by a constant factor."""
    named = _LABEL.fullmatch(one.items[0]) is not None
    if other.kind != "equation":
        return named and equal(one.items[-1], pred, symbolic, depth + 1)
    if squeeze(one.items[0]) == squeeze(other.items[0]) and len(other.items) == 2:
        return equal(one.items[-1], other.items[-1], symbolic, depth + 1)
    if len(one.items) != 2 or len(other.items) != 2:
        return False
    return symbolic("equation", gold, pred)


def _equal_relations(one: Shape, other: Shape, gold: str, pred: str, symbolic: Symbolic, depth: int) -> bool:
    """Inequalities as intervals where they are; else as mathematics."""
    first, second = interval_of(one), interval_of(other)
    if first is not None and second is not None:
        return squeeze(first[0]) == squeeze(second[0]) and _equal_intervals(first[1], second[1], symbolic, depth)
    if first is not None and other.kind == "tuple":
        return _equal_intervals(first[1], other, symbolic, depth)
    if second is not None and one.kind == "tuple":
        return _equal_intervals(one, second[1], symbolic, depth)
    if one.kind != "relation" or other.kind != "relation" or len(one.items) != 2 or len(other.items) != 2:
        return False
    return symbolic("relation", gold, pred)


def _equal_intervals(one: Shape, other: Shape, symbolic: Symbolic, depth: int) -> bool:
    return one.mark == other.mark and _in_order(one.items, other.items, symbolic, depth)


def _named(items: tuple[str, ...]) -> list[tuple[str, str]]:
    """Name (without index) and value of every item; the name is "" when the item is no ``name = value``."""
    pairs = []
    for item in items:
        form = shape(item)
        if form.kind == "equation" and len(form.items) == 2 and _LABEL.fullmatch(form.items[0]):
            pairs.append((re.sub(r"_\{?\w+\}?|[ {}]", "", form.items[0]), form.items[1]))
        else:
            pairs.append(("", item))
    return pairs


def _flat(items: tuple[str, ...]) -> tuple[str, ...]:
    """Items of a list; an item that is a ``\\pm`` pair counts as two."""
    flat: list[str] = []
    for item in items:
        form = shape(item)
        name = re.match(rf"({_NAME} ?= ?)(.*\\pm.*)", item)
        if name is not None and shape(name[2]).kind == "list":
            flat.extend(name[1] + part for part in shape(name[2]).items)
        elif form.kind == "list" and "\\pm" in item:
            flat.extend(form.items)
        else:
            flat.append(item)
    return tuple(flat)


def _equal_lists(gold: tuple[str, ...], pred: tuple[str, ...], symbolic: Symbolic, depth: int) -> bool:
    """Lists and sets ignore order; named values belong to their names; names may be left out when order is kept."""
    one, other = _named(_flat(gold)), _named(_flat(pred))
    names, others = [name for name, _ in one], [name for name, _ in other]
    if len(set(names)) > 1 and "" not in names:
        if "" not in others:
            table = dict(other)
            return sorted(names) == sorted(others) and all(equal(v, table[n], symbolic, depth + 1) for n, v in one)
        return _in_order(tuple(v for _, v in one), tuple(v for _, v in other), symbolic, depth)
    return _same_items(tuple(v for _, v in one), tuple(v for _, v in other), symbolic, depth)


def _same_items(one: tuple[str, ...], other: tuple[str, ...], symbolic: Symbolic, depth: int) -> bool:
    """Whether two unordered collections hold the same items (each gold item takes one equal answer item)."""
    if len(one) != len(other) or len(one) > _MAX_PAIRS:
        return False
    left = list(other)
    for item in one:
        match = next((at for at, candidate in enumerate(left) if equal(item, candidate, symbolic, depth + 1)), None)
        if match is None:
            return False
        left.pop(match)
    return True
