"""Take the dress off one raw answer: markdown, HTML, boxes, closing remarks, trailing punctuation."""

import re
from functools import lru_cache

from reward.extract import MAX_ANSWER, boxes_of, has_box, is_placeholder
from reward.latex import balanced, normalise
from reward.prose import hedged

_TAGS = re.compile(r"</?(?:answer|final_answer|b|i|u|em|strong|code|p|span|div|br|center|math)\s*/?>", re.IGNORECASE)
_MARKDOWN = re.compile(r"```(?:latex|math|text)?|\*\*|__|`|^\s*(?:[>#|\u2022]+\s+)+")
_EMPHASIS = re.compile(r"(?<![\w*\\)}])\*([^*\n]+)\*(?![\w*(\\])")
_THEREFORE = re.compile(
    r"^(?:\\(?:therefore|implies|[Rr]ightarrow|Longrightarrow|to|bullet)(?![A-Za-z])|\u2234|\u21d2|\u27f9|=|:)\s*"
)
_SENTENCE = re.compile(r"(?<![0-9A-Z ][A-Za-z])(?<!\s[A-Za-z])[.!?]\s+(?=[A-Z\"(*])|(?:\.|(?<![0-9A-Za-z)}])!)\s*\n")
_PRIME = re.compile(r"(?<![A-Za-z'])[A-Za-z]('+)[\s.,;:]*$")
_MAX_NESTING = 100
_EDGES = " \t.,;:!?\"'`\u201c\u201d\u3002*_\u2705\u2714\u2713\ufe0f\U0001f389"


class Unreadable(Exception):
    """The piece is no answer; the argument is the reason."""


@lru_cache(maxsize=8192)
def candidates(piece: str) -> tuple[str, ...]:
    """Normalised answers in one raw piece; more than one when several boxes stand in it.

    Raises:
        Unreadable: with ``too_long``, ``hedged``, ``malformed`` or ``no_answer``.
    """
    if len(piece) > MAX_ANSWER:
        raise Unreadable("too_long")
    if _nesting(piece) > _MAX_NESTING:
        raise Unreadable("malformed")
    text = _MARKDOWN.sub(" ", _TAGS.sub(" ", piece))
    if text.lstrip().startswith("}") and text.count("}") > text.count("{"):  # "\\textbf{Answer:} 34"
        text = text.replace("}", "", 1)
    text = re.sub(r"^\s*<([^<>]+)>\s*$", r"\1", text)
    if text.count("|") % 2:
        text = re.sub(r"\|\s*$", "", text)
    if "~~" in text:
        raise Unreadable("hedged")
    text = _EMPHASIS.sub(r"\1", text)
    inner = [box for box in boxes_of(text) if not is_placeholder(box)] if has_box(text) else []
    if not inner:
        return (_single(text),)
    around = text
    for box in inner:
        around = around.replace(box, " ")
    if hedged(re.sub(r"\\[A-Za-z]+", " ", around)):
        raise Unreadable("hedged")
    return tuple(_single(box) for box in inner)


def _nesting(text: str) -> int:
    """Deepest nesting of brackets, of any kind."""
    depth = deepest = 0
    for char in text:
        depth += (char in "({[") - (char in ")}]")
        deepest = max(deepest, depth)
    return deepest


def _single(text: str) -> str:
    """One normalised answer without closing remarks and trailing punctuation."""
    first, *rest = _SENTENCE.split(text.strip(), maxsplit=1)
    if rest and (hedged(rest[0]) or re.search(r"[0-9]", rest[0])):
        first = text if re.search(r"[0-9]", rest[0]) else ""
        if not first:
            raise Unreadable("hedged")
    text = trim(normalise(trim(first)))
    if not balanced(text):
        shorter = trim(text[:-1]) if text.endswith("}") else text
        if not balanced(shorter):
            raise Unreadable("malformed")
        text = shorter
    if not re.search(r"[0-9A-Za-z\\]", text):
        raise Unreadable("no_answer")
    return text


def trim(text: str) -> str:
    """Strip spaces, quotes, emphasis, check marks and closing punctuation; factorial, ellipsis and prime stay."""
    primed = _PRIME.search(text)
    if primed is not None and text.count("'") == len(primed[1]):
        return trim(text[: primed.start(1)]) + primed[1]
    text = text.strip(_EDGES.replace("!", "").replace(".", "")).lstrip("= ")
    while text and text[-1] in _EDGES and not re.search(r"(?:[0-9A-Za-z)}]!|\\[,;:!. ])$", text):
        text = text[:-1]
    text = _THEREFORE.sub("", text)
    return text.rstrip("\\").strip() if text.endswith("\\") and not text.endswith("\\\\") else text
