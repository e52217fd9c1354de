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
_BREAK = re.compile("|".join(re.escape(mark) for mark in END_OF_TURN) + "|" + _TURN_LINES)
_SPECIAL = re.compile(r"<\|[A-Za-z0-9_]{1,32}\|>|</?s>|<eos>|<bos>|<pad>|<(?:start|end)_of_turn>|<\uff5c[^<>\n]{1,40}\uff5c>")
_GIVES_ANSWER = re.compile(r"(?:nswer|NSWER)[*_`\"' ]{0,8}[:\uff1a]|\\boxed\b|\\fbox\b")
_THINK = "think>"


def after_thought(text: str, thought_open: bool = False) -> str | None:
    """Text behind the last ``</think>``; None when the last thought is not closed.

    Args:
        text: response.
        thought_open: the prompt opened the thought already, so a response without ``</think>`` is all thought.
    """
    at = text.rfind(_THINK) if "<" in text else -1
    while at >= 0:
        if text.startswith("</", max(at - 2, 0)):
            return text[at + len(_THINK) :]
        if text.startswith("<", max(at - 1, 0)) and at:
            return None
        at = text.rfind(_THINK, 0, at)
    return None if thought_open else text


def own_turn(text: str, last_answer: int) -> str:
    """Cut ``text`` at the first turn break that follows an answer.

    A run-away base model goes on into a new "Human:" turn, whose answer is to another problem. Only a break behind a
    first answer cuts, so prose such as "Problem: ..." in front of the answer does no harm.

    Args:
        text: response without its thought.
        last_answer: where the line of the last answer starts; nothing is searched when no other stands before it.
    """
    if text.rfind("nswer", 0, last_answer) < 0 and text.rfind("boxed", 0, last_answer) < 0:
        return text
    first = _GIVES_ANSWER.search(text)
    if first is None:
        return text
    found = _BREAK.search(text, first.end())
    return text if found is None else text[: found.start()]


def strip_special(text: str) -> str:
    """Remove special tokens of known chat templates from one short piece of text."""
    if "<" not in text:
        return text
    ends = [at for at in (text.find(mark) for mark in END_OF_TURN) if at > 0]
    return _SPECIAL.sub(" ", text[: min(ends)] if ends else text)
