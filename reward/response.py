"""Which part of a response counts: after the last thought, before a turn that the model invented."""

import re

# Marks after which the model's turn is over. Text behind them belongs to somebody else.
END_OF_TURN = (
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "<|eom_id|>",
    "<end_of_turn>",
    "<eos>",
    "</s>",
    "<|im_start|>",
    "<|start_header_id|>",
    "<start_of_turn>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "<\uff5cUser\uff5c>",
)
_TURN_LINES = r"\n[ \t#*]*(?:Human|User|System|Question|Problem)[ \t*]*:"
# Two patterns, each with a first character that the engine can skip to; together they would be ten times slower.
_BREAKS = (re.compile("<(?:" + "|".join(re.escape(mark[1:]) for mark in END_OF_TURN) + ")"), re.compile(_TURN_LINES))
_SPECIAL = re.compile(
    r"<\|[A-Za-z0-9_]{1,32}\|>|</?s>|<eos>|<bos>|<pad>|<(?:start|end)_of_turn>|<\uff5c[^<>\n]{1,40}\uff5c>"
)
# What an earlier answer is known by.
_MARKS = ("nswer:", "nswer*", "nswer\uff1a", "boxed")
# An earlier answer is looked for in so many characters before the last one. Searching all of a 20,000-token response
# would double the cost of grading it.
TURN_WINDOW = 12_000
_THINK = "think>"
_RARE = 64


def after_thought(text: str, thought_open: bool = False) -> str | None:
    """Text behind the last ``</think>``; None when the last thought is not closed.

    Args:
        text: response.
        thought_open: the prompt opened the thought already, so a response without ``</think>`` is all thought.
    """
    at = _last_tag(text, len(text))
    while at >= 0:
        if text.startswith("</", max(at - 2, 0)):
            return text[at + len(_THINK) :]
        if at and text[at - 1] == "<":
            return None
        at = _last_tag(text, at)
    return None if thought_open else text


def _last_tag(text: str, end: int) -> int:
    """Position of the last ``think>`` before ``end``; -1 if none.

    Looking for the rare ``>`` first is twenty times faster than for the whole word, as long as it is rare.
    """
    at = end
    for _ in range(_RARE):
        at = text.rfind(">", 0, at)
        if at < 0 or text.startswith(_THINK, max(at - len(_THINK) + 1, 0)):
            return max(at - len(_THINK) + 1, 0) if at >= len(_THINK) - 1 else -1
    return text.rfind(_THINK, 0, at)


def own_turn(text: str, last_answer: int) -> str:
    """Cut ``text`` at the first turn break that follows an answer.

    A run-away base model goes on into a new "Human:" turn, whose answer is to another problem. Only a break behind a
    first answer cuts, so prose such as "Problem: ..." in front of the answer does no harm.

    Args:
        text: response without its thought.
        last_answer: where the line of the last answer starts; nothing is searched when no other stands before it.
    """
    low = max(last_answer - TURN_WINDOW, 0)
    for mark in _MARKS:  # backwards is three times faster, and mostly there is none
        if text.rfind(mark, low, last_answer) >= 0:
            break
    else:
        return text
    firsts = [at for mark in _MARKS if (at := text.find(mark, low, last_answer)) >= 0]
    breaks = [found.start() for pattern in _BREAKS if (found := pattern.search(text, min(firsts))) is not None]
    return text[: min(breaks)] if breaks else text


def strip_special(text: str) -> str:
    """Remove special tokens of known chat templates from one short piece of text."""
    if "<" not in text:
        return text
    ends = [at for at in (text.find(mark) for mark in END_OF_TURN) if at > 0]
    return _SPECIAL.sub(" ", text[: min(ends)] if ends else text)
