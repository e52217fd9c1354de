"""The text around a problem, and the way back from a wrapped prompt to the problem alone.

The name of a template is also the name of the answer format that the reward has to read: `answer` asks for a last
line `Answer: ...`, `boxed` for `\\boxed{...}`, `none` adds nothing.
"""

from typing import NamedTuple


class Template(NamedTuple):
    """What stands before and after the problem, blank lines included."""

    prefix: str
    suffix: str


TEMPLATES = {
    # The wrap of BytedTsinghua-SIA/DAPO-Math-17k and AIME-2024, character by character.
    "answer": Template(
        "Solve the following math problem step by step. The last line of your response should be of the form "
        "Answer: $Answer (without quotes) where $Answer is the answer to the problem.\n\n",
        '\n\nRemember to put your answer on its own line after "Answer:".',
    ),
    "boxed": Template("", "\n\nPlease reason step by step, and put your final answer within \\boxed{}."),
    "none": Template("", ""),
}


def render(problem: str, template: str) -> str:
    """Return the prompt text of `problem` under `template` (answer, boxed or none).

    Raises:
        ValueError: `template` is not a known name.
    """
    if template not in TEMPLATES:
        raise ValueError(f"template={template!r} is unknown; use one of {', '.join(TEMPLATES)}")
    prefix, suffix = TEMPLATES[template]
    return f"{prefix}{problem}{suffix}"


def recover(text: str) -> tuple[str, str]:
    """Return `(problem, template)`: the problem inside a prompt text and the name of the wrap it was found in.

    A wrap is recognised when all its words are there, whatever the white space at the seams. Text in no known wrap
    comes back as it is, as template `none`.
    """
    stripped = text.strip()
    for name, (prefix, suffix) in TEMPLATES.items():
        head, tail = prefix.strip(), suffix.strip()
        if len(stripped) >= len(head) + len(tail) and stripped.startswith(head) and stripped.endswith(tail):
            return stripped[len(head) : len(stripped) - len(tail)].strip(), name
    raise AssertionError("the template `none` matches every text")
