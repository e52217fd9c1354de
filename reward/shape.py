"""The outer form of an answer: tuple, interval, set, list, union, matrix, relation, equation or a single expression."""

import re
from dataclasses import dataclass
from functools import lru_cache

from reward.exact import is_plain, rational
from reward.latex import ROW

_OPEN, _CLOSE = "([{", ")]}"
_RELATION = re.compile(r"\\(?:le|ge|ne)(?![A-Za-z])|[<>]")
_MATRIX = re.compile(
    r"\\begin\{([pbvBV]?matrix|smallmatrix|array|cases|aligned?\*?|split|gathered)\}"
    r"(?:\[.\])?(?:\{[lcr| ]*\})?(.*?)\\end\{\1\}"
)
_MEMBER = re.compile(r"([A-Za-z](?:_\{?[A-Za-z0-9]+\}?)?(?:\([a-z]\))?) ?\\in(?![A-Za-z]) ?(.+)")
MAX_ITEMS = 64


@dataclass(frozen=True)
class Shape:
    """One answer, taken apart once.

    Attributes:
        kind: ``atom``, ``tuple`` (round, square or mixed brackets), ``set``, ``list``, ``union``, ``matrix``,
            ``relation`` or ``equation``.
        items: parts in order; of a relation and an equation the sides, of a matrix the cells row by row.
        mark: brackets of a tuple, row lengths of a matrix, operators of a relation.
    """

    kind: str
    items: tuple[str, ...]
    mark: str = ""


def split_top(text: str, separator: re.Pattern[str]) -> list[str]:
    """Split at separators that stand outside all brackets; unbalanced brackets never raise."""
    parts, depth, start, at = [], 0, 0, 0
    while at < len(text):
        if depth == 0 and (found := separator.match(text, at)) is not None and found.end() > at:
            parts.append(text[start:at])
            start = at = found.end()
            continue
        if text.startswith("\\left", at) or text.startswith("\\right", at):
            at += 5
            continue
        char = text[at]
        if text.startswith(("\\langle", "\\{"), at):
            depth += 1
            at += 2
            continue
        if text.startswith(("\\rangle", "\\}"), at):
            depth = max(depth - 1, 0)
            at += 2
            continue
        if char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth = max(depth - 1, 0)
        at += 1
    parts.append(text[start:])
    return [part.strip() for part in parts]


_COMMA = re.compile(r"[,;]| (?:and|or) |\\(?:text|mathrm) ?\{ ?(?:and|or) ?\}| ?\\(?:lor|land|vee|wedge)(?![A-Za-z]) ?")
_UNION = re.compile(r" ?\\cup(?![A-Za-z]) ?| U ")
_OR = re.compile(r",? or | ?\\lor(?![A-Za-z]) ?")
_REALS = frozenset(("\\mathbb{R}", "\\R", "all real numbers", "all reals", "\\Re"))
_EQUALS = re.compile(r"(?<![<>!:=])=(?!=)|(?<![A-Za-z])\\equiv(?![A-Za-z])")


def wrapped(text: str) -> tuple[str, str, str] | None:
    """Opening bracket, content and closing bracket, when one pair of brackets encloses all of ``text``."""
    for left, right in (("\\{", "\\}"), ("\\langle", "\\rangle")):
        if text.startswith(left) and text.endswith(right) and len(text) >= len(left) + len(right):
            inner = text[len(left) : len(text) - len(right)]
            if left not in inner:
                return left, inner.strip(), right
    if len(text) < 2 or text[0] not in _OPEN or text[-1] not in _CLOSE or text.endswith("\\}"):
        return None
    depth, at = 0, 0
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text) and text[at + 1] in "{}":
            at += 2
            continue
        depth += (text[at] in _OPEN) - (text[at] in _CLOSE)
        if depth == 0 and at < len(text) - 1:
            return None
        at += 1
    return (text[0], text[1:-1].strip(), text[-1]) if depth == 0 else None


def commas(text: str) -> list[str]:
    """Parts between top-level commas, semicolons, "and" and "or"; a thousands comma is no separator."""
    if is_plain(text):
        return [text]
    return [part for part in split_top(text, _COMMA) if part]


@lru_cache(maxsize=8192)
def shape(text: str) -> Shape:
    """Outer form of one normalised answer."""
    text = text.strip()
    if rational(text) is not None:
        return Shape("atom", (text,))
    if text in _REALS:
        return Shape("tuple", ("-\\infty", "\\infty"), "()")
    member = _MEMBER.fullmatch(text)
    if member is not None:
        return shape(member.group(2).strip())
    matrix = _matrix(text)
    if matrix is not None:
        return matrix
    parts = split_top(text, _UNION)
    if len(parts) > 1 and all(shape(part).kind in ("tuple", "set", "relation") for part in parts):
        return Shape("union", tuple(parts))
    parts = split_top(text, _OR)
    if len(parts) > 1 and all(interval_of(shape(part)) is not None for part in parts):
        return Shape("union", tuple(parts))
    bracket = wrapped(text)
    if bracket is not None:
        return _bracketed(text, *bracket)
    parts = commas(text)
    if 1 < len(parts) <= MAX_ITEMS:
        return Shape("list", tuple(parts))
    if _RELATION.search(text):
        return _relation(text)
    sides = split_top(text, _EQUALS)
    if len(sides) > 1 and all(sides):
        return Shape("equation", tuple(sides))
    if "\\pm" in text:
        upper = text.replace("\\pm", "+").replace("\\mp", "-")
        return Shape("list", (upper, text.replace("\\pm", "-").replace("\\mp", "+")))
    return Shape("atom", (text,))


def _bracketed(text: str, left: str, inner: str, right: str) -> Shape:
    """A tuple, an interval, a set, or redundant brackets around one thing."""
    if left == "\\{" or (left == "{" and right == "}"):
        parts = commas(inner)
        if left == "{" and len(parts) < 2:
            return shape(inner)
        return Shape("set", tuple(parts[:MAX_ITEMS]))
    parts = commas(inner)
    if len(parts) < 2:
        matrix = _matrix(inner)
        if matrix is not None:
            return matrix
        return shape(inner) if (left, right) in (("(", ")"), ("[", "]")) else Shape("atom", (text,))
    if (left, right) == ("\\langle", "\\rangle"):
        left, right = "(", ")"
    return Shape("tuple", tuple(parts[:MAX_ITEMS]), left + right)


def _matrix(text: str) -> Shape | None:
    """Cells of one matrix; a single column or row is a tuple."""
    found = _MATRIX.fullmatch(text)
    if found is None:
        return None
    rows = [row.split("&") for row in found.group(2).split(ROW) if row.strip()]
    cells = tuple(cell.strip() for row in rows for cell in row)
    if not cells or len(cells) > 4 * MAX_ITEMS:
        return None
    return Shape("matrix", cells, ",".join(str(len(row)) for row in rows))


def _relation(text: str) -> Shape:
    """Sides and operators of a chain such as ``3 < x \\le 4``."""
    sides = split_top(text, _RELATION)
    operators = [match.group().strip("\\") for match in _RELATION.finditer(text)]
    if len(sides) != len(operators) + 1 or not all(sides):
        return Shape("atom", (text,))
    return Shape("relation", tuple(sides), " ".join(operators))


_FLIP = {"<": ">", ">": "<", "le": "ge", "ge": "le", "ne": "ne"}
_VARIABLE = re.compile(r"[A-Za-z](?:_\{?[A-Za-z0-9]+\}?)?|\\(?:alpha|beta|gamma|theta|lambda|mu|phi|omega)")


def interval_of(form: Shape) -> tuple[str, Shape] | None:
    """Interval that a relation on one variable describes: the variable and a tuple shape; None for any other."""
    if form.kind != "relation":
        return None
    sides, operators = list(form.items), form.mark.split()
    if "ne" in operators:
        return None
    if len(sides) == 2:
        if _VARIABLE.fullmatch(sides[1]) and not _VARIABLE.fullmatch(sides[0]):
            sides, operators = sides[::-1], [_FLIP[operators[0]]]
        if not _VARIABLE.fullmatch(sides[0]):
            return None
        open_, end = operators[0] in "<>", sides[1]
        if operators[0] in (">", "ge"):
            return sides[0], Shape("tuple", (end, "\\infty"), ("(" if open_ else "[") + ")")
        return sides[0], Shape("tuple", ("-\\infty", end), "(" + (")" if open_ else "]"))
    if len(sides) == 3 and _VARIABLE.fullmatch(sides[1]):
        if operators[0] in (">", "ge") and operators[1] in (">", "ge"):
            sides, operators = sides[::-1], [_FLIP[operator] for operator in operators[::-1]]
        if operators[0] in ("<", "le") and operators[1] in ("<", "le"):
            mark = ("(" if operators[0] == "<" else "[") + (")" if operators[1] == "<" else "]")
            return sides[1], Shape("tuple", (sides[0], sides[2]), mark)
    return None
