"""What makes two problem texts the same, which language one is in, and whether one gives its answer away."""

import hashlib
import re
import unicodedata

_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff\u00ad"))
_MATH = re.compile(r"\$\$.*?\$\$|\$.*?\$|\\\[.*?\\\]|\\\(.*?\\\)|\\[A-Za-z]+", re.DOTALL)
_ENGLISH_SHARE = 0.9
_ANSWER_SENTENCE = re.compile(
    r"(?:\banswer\s*(?:is|was|=|:|\uff1a)|答案\s*(?:是|为|:|\uff1a)|\\boxed\s*\{)\s*[\\$({\[*]*", re.IGNORECASE
)
_GOES_ON = re.compile(r"\w|[.,]\d")


def normalise(text: str) -> str:
    """Return the text by which problems are compared: NFC, no invisible characters, single spaces, no outer space.

    Case stays: `A` and `a` may name different things in one problem.
    """
    if text.isascii():
        return " ".join(text.split())
    return " ".join(unicodedata.normalize("NFC", text).translate(_INVISIBLE).split())


def digest(problem: str) -> bytes:
    """Return 16 bytes that stand for the normalised problem text."""
    return hashlib.blake2b(normalise(problem).encode(), digest_size=16).digest()


def holdout_rank(problem: str, seed: int) -> bytes:
    """Return what problems are ordered by when some are held out: a hash of the problem and the seed."""
    return hashlib.blake2b(digest(problem), digest_size=16, salt=(seed % 2**64).to_bytes(8, "big")).digest()


def is_english(text: str) -> bool:
    """Tell whether at least nine tenths of the letters outside formulas are Latin or Greek.

    This tells scripts apart, not languages: Spanish passes, Chinese, Russian or Arabic does not. A text without such
    letters (a bare formula) passes.
    """
    if text.isascii():
        return True
    letters = [c for c in _MATH.sub(" ", text) if c.isalpha()]
    return sum(map(_latin_or_greek, letters)) >= _ENGLISH_SHARE * len(letters)


def _latin_or_greek(letter: str) -> bool:
    return letter.isascii() or unicodedata.name(letter, "").startswith(
        ("LATIN", "GREEK", "MATHEMATICAL", "DOUBLE-STRUCK")
    )


def gives_away(problem: str, answer: str) -> bool:
    """Tell whether the problem holds its own answer in a sentence: `the answer is 33`, `Answer: 33`, `\\boxed{33}`."""
    if not any(word in problem.lower() for word in ("answer", "boxed", "\u7b54\u6848")):
        return False  # what every match begins with; ten times as fast as the search
    ends = (found.end() for found in _ANSWER_SENTENCE.finditer(problem))
    return any(problem.startswith(answer, i) and not _GOES_ON.match(problem, i + len(answer)) for i in ends)
