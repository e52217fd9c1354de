"""Find the final answer in a response: the last ``Answer:`` line, else the last ``\\boxed{}``."""

import re
from collections import deque
from dataclasses import dataclass

from reward.response import after_thought, own_turn, strip_special

# Longer answers are not graded (they are no final answers); it bounds every later step.
MAX_ANSWER = 1000
# verl's math_dapo reads this many characters from the end.
WINDOW = 300
_MAX_SEGMENTS = 8
_MAX_LINES = 30
# So many answer lines with nothing on them are looked through before giving up.
_MAX_EMPTY = 1000
_AFTER = r"s?(?:[ \t*_`~\"'}\])]|\\[,; ]|\([^()\n]{0,40}\)|\bis\b|\bhere\b){0,80}[:\uff1a]"
_MARK = re.compile(rf"(?:answer|\u7b54\u6848){_AFTER}", re.IGNORECASE)
_REST_OF_MARK = re.compile(rf"nswer{_AFTER}|\u7b54\u6848{_AFTER}", re.IGNORECASE)
_BOX = re.compile(r"\\(?:boxed|fbox)\s*(?=\{)|\\boxed +(?=[0-9])")
_NOTHING = re.compile(r"[\s*_`~$.,;:!?\"'\u201c\u201d\uff1a()\[\]{}|<>=#\\-]*")
_PLACEHOLDER = re.compile(
    r"\$?\\?\$?(?:\\boxed\{)?[\[<({\"'\s]*(?:\\text\{)?(?:the |your |my |final |correct |numerical )*"
    r"(?:answer|ans|result|final_answer|your_answer|answer_here|number|value|insert answer here)"
    r"(?: here| goes here)?[\]>)}\"'$\s.]*(?:\(without quotes\).*|where .*)?",
    re.IGNORECASE | re.DOTALL,
)
_ECHO = re.compile(r"[\"'`\s]*\\?\$\\?Answer\b", re.IGNORECASE)


@dataclass(frozen=True)
class Extraction:
    """What was found.

    Attributes:
        pieces: raw answer texts that stand beside each other; more than one means that the response offers several.
        status: ``answer_line``, ``boxed`` or ``none``.
        reason: why there is nothing, or "".
        from_end: characters from the start of the answer to the end of the response.
    """

    pieces: tuple[str, ...]
    status: str
    reason: str = ""
    from_end: int = 0


def extract(response: str, prefer: str = "answer", thought_open: bool = False) -> Extraction:
    """Find the final answer of ``response``.

    Args:
        response: whole response; time is linear in its length.
        prefer: ``answer`` reads an answer line first and a box when there is none, ``boxed`` the other way round.
        thought_open: the prompt opened ``<think>``.
    """
    text = after_thought(response, thought_open)
    if text is None:
        return Extraction((), "none", "unfinished_thought")
    readers = (_from_lines, _from_boxes) if prefer == "answer" else (_from_boxes, _from_lines)
    for reader in readers:
        found = reader(text)
        if found is not None:
            return found
    return Extraction((), "none", "no_answer")


def _from_lines(text: str) -> Extraction | None:
    """Read the last line with an answer mark that holds more than an echo of the instruction."""
    found = _last_line(text)
    if found is None:
        return None
    start, pieces = found
    own = own_turn(text, start)
    if len(own) < len(text) and len(own) <= start:
        found = _last_line(own)
        if found is None:
            return None
        start, pieces = found
    if not any(has_box(piece) or looks_like_value(piece) for piece in pieces) and _BOX.search(own, start):
        return None  # "Answer: as shown above, \n ... \boxed{34}": the line is prose, the box is the answer
    return Extraction(pieces, "answer_line", from_end=len(text) - start)


def _last_line(text: str) -> tuple[int, tuple[str, ...]] | None:
    """Start of the last line with a usable answer mark, and the pieces behind its marks."""
    end = len(text)
    for _ in range(_MAX_EMPTY):
        at = _last_mark(text, end)
        if at < 0:
            return None
        start = text.rfind("\n", 0, at) + 1
        stop = text.find("\n", at)
        pieces = _line_pieces(text, start, len(text) if stop < 0 else stop)
        if pieces:
            return start, pieces
        end = start
    return None


def _last_mark(text: str, end: int) -> int:
    """Position of the last answer mark ("Answer:" in any case and dress) before ``end``; -1 if none.

    Linear: every word is searched for in every stretch of the text once. The common spelling is found first, so that
    the others are looked for behind it only.
    """
    others = ("NSWER",) if text.isascii() else ("NSWER", "\u7b54\u6848")
    at = text.rfind("nswer", 0, end)
    while True:
        low = max(at, 0)
        places = [text.rfind(word, low, end) for word in others]
        while (place := max(places)) > at:
            if _REST_OF_MARK.match(text, place) is not None:
                return place
            places = [p if p < place else text.rfind(others[k], low, place) for k, p in enumerate(places)]
        if at < 0 or _REST_OF_MARK.match(text, at) is not None:
            return at
        end, at = at, text.rfind("nswer", 0, at)


def _line_pieces(text: str, start: int, stop: int) -> tuple[str, ...]:
    """Pieces of one line that follow its answer marks, echoes and empty ones left out."""
    marks = list(deque(_MARK.finditer(text, start, stop), maxlen=_MAX_SEGMENTS))
    pieces = []
    for number, mark in enumerate(marks):
        last = number == len(marks) - 1
        piece = _extended(text, mark.end(), stop) if last else text[mark.end() : marks[number + 1].start()]
        piece = strip_special(piece[: MAX_ANSWER + 1])
        if not is_placeholder(piece):
            pieces.append(piece)
    return tuple(pieces)


def _extended(text: str, at: int, stop: int) -> str:
    """Rest of the line; an empty one takes the next line with content, an open environment or box runs to its end."""
    piece = text[at:stop]
    for _ in range(_MAX_LINES):
        if len(piece) > MAX_ANSWER or stop >= len(text):
            break
        if _NOTHING.fullmatch(piece) is None and not _is_open(piece):
            break
        end = text.find("\n", stop + 1)
        end = len(text) if end < 0 else end
        if _MARK.search(text, stop, min(end, stop + 200)):
            break
        piece, stop = text[at:end], end
    return piece


def _is_open(piece: str) -> bool:
    """Whether an environment, a display or a box that starts in ``piece`` has not ended yet."""
    return (
        piece.count("\\begin{") > piece.count("\\end{")
        or piece.count("\\[") > piece.count("\\]")
        or (has_box(piece) and piece.count("{") > piece.count("}"))
    )


def is_placeholder(piece: str) -> bool:
    """Whether a piece holds nothing, or only the echo of an instruction such as ``$Answer``."""
    return (
        _NOTHING.fullmatch(piece) is not None
        or _ECHO.match(piece) is not None
        or _PLACEHOLDER.fullmatch(piece.strip(" \t*_`\n")) is not None
    )


def looks_like_value(piece: str) -> bool:
    """Whether a piece has a digit or mathematics, or is at most three words."""
    return re.search(r"[0-9$\\^=]", piece) is not None or len(piece.split()) <= 3


def has_box(piece: str) -> bool:
    """Whether a piece contains a box."""
    return "boxed" in piece or "\\fbox" in piece


def _from_boxes(text: str) -> Extraction | None:
    """Read the last complete box, together with those joined to it on the same line by "or", "and" or a comma."""
    start = _last_box(text, len(text))
    if start < 0:
        return None
    own = own_turn(text, start)
    if len(own) <= start:
        start = _last_box(own, len(own))
        if start < 0:
            return None
    line = text.rfind("\n", 0, start) + 1
    boxes = boxes_of(own[max(line, start - MAX_ANSWER) : start + MAX_ANSWER + 2])
    pieces = tuple(box for box in boxes if not is_placeholder(box))
    return Extraction(pieces, "boxed", from_end=len(text) - start) if pieces else None


def _last_box(text: str, end: int) -> int:
    """Start of the last box before ``end`` that is complete and not empty; -1 if none. Looks at 64 boxes at most."""
    for _ in range(64):
        end = max(text.rfind("\\boxed", 0, end), text.rfind("\\fbox", 0, end))
        if end < 0:
            return -1
        found = _box_at(text[end : end + MAX_ANSWER + 20])
        if found is not None and not is_placeholder(found[0]):
            return end
    return -1


def _box_at(text: str) -> tuple[str, int] | None:
    """Content of the box that ``text`` starts with and its length; None when it is not closed."""
    head = _BOX.match(text)
    if head is None:
        return None
    if text[head.end()] != "{":
        digits = re.match(r"[0-9]+", text[head.end() :])
        return (digits.group(), head.end() + digits.end()) if digits else None
    depth = 0
    for at in range(head.end(), len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return text[head.end() + 1 : at], at + 1
    return None


def boxes_of(text: str) -> list[str]:
    """Contents of the last boxes of ``text`` that only "or", "and", commas and delimiters stand between."""
    found: list[str] = []
    at, last_end = 0, 0
    while (head := _BOX.search(text, at)) is not None:
        box = _box_at(text[head.start() :])
        if box is None:
            at = head.end()
            continue
        joined = re.fullmatch(
            r"[\s$,;.\\()\[\]]*(?:or|and|,|;|\\text\{ ?(?:or|and) ?\})[\s$,;\\()\[\]]*", text[last_end : head.start()]
        )
        found = [*found, box[0]] if found and joined else [box[0]]
        at = last_end = head.start() + box[1]
    return found[-_MAX_SEGMENTS:]
