"""Ordinary words around an answer: which are harmless, which say that the answer is not one."""

import re

_WORD = re.compile(r"[A-Za-z][A-Za-z']*")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Said of one answer, they take it back or leave it open.
_HEDGES = _set(
    "maybe perhaps possibly probably presumably might could may guess guessing unsure uncertain either "
    "alternatively unless likely unlikely somewhere "
)
_DENIALS = _set(
    "not never no none wrong incorrect false except neither nor cannot can't isn't doesn't don't won't impossible "
    "invalid mistake mistaken instead actually wait unknown undefined rejected contradiction too "
)
# They change the value of the number beside them.
_OPERATORS = _set(
    "plus minus negative over divided multiplied squared cubed squareroot root half twice double triple "
    "thrice more less fewer greater larger smaller least most between under above below exceeds exceeding factorial "
    "choose mod modulo reciprocal inverse power raised log sine cosine tangent absolute remainder versus vs "
)
_NUMBERS = _set(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million "
    "billion dozen third quarter fifth half "
)


def words_of(text: str) -> list[str]:
    """Lower-case words of ``text``; LaTeX commands are not words."""
    return [word.lower() for word in _WORD.findall(re.sub(r"\\[A-Za-z]+", " ", text))]


def hedged(text: str) -> bool:
    """Whether ``text`` takes its answer back, leaves it open or denies it."""
    return any(word in _HEDGES or word in _DENIALS for word in words_of(text)) or "not sure" in text.lower()


def changes_value(text: str) -> bool:
    """Whether words beside a number change its value ("minus", "half", "more than")."""
    return any(word in _OPERATORS or word in _NUMBERS for word in words_of(text))


def offers_choice(text: str) -> bool:
    """Whether ``text`` has an "or"."""
    return "or" in words_of(text)


def harmless(text: str) -> bool:
    """Whether ``text`` is plain words that may stand beside an answer: no digit, no formula, no hedge, no operator."""
    plain = re.fullmatch(r"[A-Za-z'\u2019\s.,:;!()\-]*", text) is not None
    return plain and not (hedged(text) or changes_value(text) or offers_choice(text))


_CONCLUSION = re.compile(
    r"(.+?)[ ,;.]+(?:so|hence|thus|therefore|giving|which gives|making it)\b[ ,:]*(?!.*\b(?:so|hence|thus)\b)(.+)"
)


def conclusion(text: str) -> str:
    """What stands behind a final "so" or "therefore" ("17 is too large, so 16"); else all of ``text``.

    A candidate rejected in favour of another is no second answer; an offered alternative ("16 or 17, so 17") is.
    """
    found = _CONCLUSION.fullmatch(text)
    if found is None or offers_choice(text) or any(word in _HEDGES for word in words_of(text)):
        return text
    return found.group(2).strip()


# Words in front of an answer: at least two letters each, or the article.
_LEAD = re.compile(
    r"(?:(?:(?<![A-Za-z\\])(?:[A-Za-z]['A-Za-z]+|[aAI]|[A-Za-z](?= (?:is|are|equals)\b))(?![A-Za-z(_^\\{])(?!\s*=))"
    r"[ ,:;]+)+"
)


def strip_lead(text: str) -> str | None:
    """Remove words in front of the answer ("There are", "the value is"); None when they are not harmless.

    A word that an equals sign follows belongs to an equation and stays.
    """
    found = _LEAD.match(text)
    if found is None:
        return text
    return text[found.end() :].strip() if harmless(found.group()) else None
