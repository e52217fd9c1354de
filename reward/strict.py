"""The default rules: what a fair human grader accepts, given only the response and the gold."""

import re
from functools import lru_cache

from reward.compare import Symbolic, answer_quantity, equal, gold_quantity, is_text, same_spelling, same_text
from reward.dress import Unreadable, candidates, trim
from reward.extract import WINDOW, Extraction, extract
from reward.gold import check_gold
from reward.latex import normalise, squeeze
from reward.prose import conclusion, hedged
from reward.shape import commas, shape
from reward.verdict import Verdict

# The common case, read without the general machinery: one whole number, perhaps between dollars.
_FAST = re.compile(r"[ \t]*\$?[ \t]*([-+]?)0*([0-9]{1,18})(?:\.0{1,6})?[ \t]*\$?\.?[ \t]*")


@lru_cache(maxsize=4096)
def gold_of(gold: str) -> str | None:
    """Normalised gold, or None when it cannot be graded."""
    try:
        return trim(normalise(check_gold(gold))) or None
    except ValueError:
        return None


def grade_strict(
    response: str, gold: str, symbolic: Symbolic, prefer: str = "answer", thought_open: bool = False
) -> Verdict:
    """Grade one response.

    Args:
        response: whole text of the response.
        gold: ground truth as text.
        symbolic: comparison of last resort, see ``reward.compare.Symbolic``.
        prefer: ``answer`` or ``boxed``, the format that is read first.
        thought_open: the prompt opened ``<think>``.
    """
    target = gold_of(gold) if isinstance(gold, str) else None
    if target is None:
        return Verdict(False, None, "bad_gold", "bad_gold")
    found = extract(response, prefer, thought_open)
    if not found.pieces:
        return Verdict(False, None, found.status, found.reason)
    correct, pred, reason = _decide(found, target, symbolic)
    status = found.status if pred is not None else "none"
    return Verdict(correct, pred, status, reason, outside_window=found.from_end > WINDOW)


def _decide(found: Extraction, gold: str, symbolic: Symbolic) -> tuple[bool, str | None, str]:
    """Correct, what was read, and why."""
    if len(found.pieces) == 1 and (plain := _FAST.fullmatch(found.pieces[0])) is not None:
        value = ("-" if plain[1] == "-" and plain[2] != "0" else "") + plain[2]
        if value == gold:
            return True, value, "equal"
    try:
        texts = [text for piece in found.pieces for text in candidates(piece)]
    except Unreadable as error:
        return False, None, str(error)
    if len(texts) > 1:
        return _several(texts, found.status, gold, symbolic)
    text = conclusion(texts[0])
    if is_text(gold) and _same_primes(gold, text) and same_text(gold, text):
        return True, readable(text), "equal"
    if hedged(text) and not same_spelling(gold, text):
        return False, readable(text), "hedged"
    if accepts(gold, text, symbolic):
        return True, readable(text), "equal"
    return False, readable(text), "several_candidates" if _is_listing(text) else "differs"


def accepts(gold: str, text: str, symbolic: Symbolic) -> bool:
    """Whether one normalised answer equals the gold, as it stands or without what people add to it.

    Tried in turn: the text itself; without an exclamation mark; the exact side of ``a \\approx b``; an answer that
    repeats itself in another form ("1/2 (0.5)", "1/2 or 0.5"), when all its forms agree.
    """
    if not _same_primes(gold, text):
        return False
    if equal(gold, text, symbolic):
        return True
    if text.endswith("!") and "!" not in gold:  # excitement after a number or a word; after anything else a factorial
        rest = text[:-1].strip()
        return (answer_quantity(rest) is not None or is_text(rest)) and equal(gold, rest, symbolic)
    if "\\approx" in text and "\\approx" not in gold:
        sides = [side.strip(" =") for side in text.split("\\approx")]
        return equal(gold, sides[0] or sides[1], symbolic) or _approximates(gold, sides, symbolic)
    if gold_quantity(gold) is None:
        return False
    again = re.fullmatch(r"(.+?) ?\(([^()]+)\)", text)
    forms = list(again.groups()) if again else commas(text)
    return len(forms) > 1 and all(form.strip() and equal(gold, form.strip(), symbolic) for form in forms)


_PRIMED = re.compile(r"(?<![A-Za-z\\'])([A-Za-z])('*)(?![A-Za-z])")


def _same_primes(gold: str, text: str) -> bool:
    """Whether every one-letter name that stands in both has its primes in both: ``f'(x)`` is not ``f(x)``."""
    one, other = ({name: len(primes) for name, primes in _PRIMED.findall(t)} for t in (gold, text))
    return all(other[name] == primes for name, primes in one.items() if name in other)


def _approximates(gold: str, sides: list[str], symbolic: Symbolic) -> bool:
    """``100\\pi \\approx 314.16`` for a decimal gold: an exact side that is no plain number, rounded to the gold."""
    number = gold_quantity(gold)
    if number is None or number.value.denominator == 1 or len(sides) != 2:
        return False
    return bool(sides[0]) and answer_quantity(sides[0]) is None and equal(gold, sides[1], symbolic)


def _several(texts: list[str], status: str, gold: str, symbolic: Symbolic) -> tuple[bool, str | None, str]:
    """Several boxes or marks on one line: the same answer again, or together a list that the gold asks for."""
    pred = ", ".join(readable(text) for text in texts)
    if all(accepts(gold, text, symbolic) for text in texts):
        return True, readable(texts[0]), "equal"
    if status == "boxed" and shape(gold).kind in ("list", "set") and accepts(gold, ", ".join(texts), symbolic):
        return True, pred, "equal"
    return False, pred, "several_candidates"


def _is_listing(text: str) -> bool:
    """Whether an answer holds several different numbers without being one number."""
    if answer_quantity(text) is not None:
        return False
    return len(set(re.findall(r"[0-9]+(?:\.[0-9]+)?", text))) > 1 and "\\" not in text


def readable(text: str) -> str:
    """Canonical text of an answer, the same for equal numbers: what majority votes count and logs show."""
    value = answer_quantity(text)
    if value is None:
        return squeeze(text).replace("\x01", "").replace("\x02", "$").replace("\x03", " ").replace("\x04", "\\\\")
    unit = {"": "", "percent": "%"}.get(value.unit, f" {value.unit}")
    return f"{_digits(value.value)}{unit}"


def _digits(value: object) -> str:
    text = str(value) if getattr(value, "numerator", 0).bit_length() < 8000 else "huge"
    return text
