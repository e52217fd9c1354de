"""Exact rational value of one number: decimals, fractions, mixed numbers, powers. Pure, bounded, no ``eval``."""

import math
import re
from fractions import Fraction
from functools import lru_cache

from reward.latex import DOLLAR, GROUP

# Larger values are left to the symbolic comparison (or to identical spelling).
_MAX_BITS = 20_000
_MAX_DIGITS = 1_000
_MAX_DEPTH = 40
_NUMBER = re.compile(rf"(?:[0-9]{{1,3}}(?:(?:,| ?{GROUP} ?| )[0-9]{{3}})+(?![0-9])|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+")
_TOKEN = re.compile(rf"\s*({_NUMBER.pattern}|\\frac|\\sqrt|\\cdot|\\times|\\d?binom|[-+*/^!(){{}}%])")

_REPEATING = re.compile(r"([0-9]{1,40})\.([0-9]{0,40})\\(?:overline|bar|dot) ?\{?([0-9]{1,40})\}?")


class NotRational(Exception):
    """The text is no number that this evaluator reads."""


@lru_cache(maxsize=8192)
def rational(text: str, sums: bool = True) -> Fraction | None:
    """Value of normalised ``text`` as an exact fraction, or None when it is anything else.

    Args:
        text: one answer from ``latex.normalise``.
        sums: whether ``+`` and ``-`` between terms are allowed; without, ``3+4`` is no number.
    """
    if len(text) > _MAX_DIGITS or not text:
        return None
    try:
        reader = _Reader(_tokens(text), sums)
        value = reader.sum(0)
        return value if reader.done() else None
    except NotRational:
        return None


def _tokens(text: str) -> list[str]:
    """Cut ``text`` into tokens; ``1e6`` and ``1 x 10^6`` become ordinary products."""
    text = re.sub(r"(?<=[0-9.])[eE]([-+]?[0-9]{1,3})(?![0-9A-Za-z.])", r"*10^{\1}", text)
    text = re.sub(r"(?<=[0-9]) ?[xX] ?(?=10\^)", "*", text)
    text = _REPEATING.sub(_repeating, text)
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise NotRational
        tokens.append(found.group(1))
        at = found.end()
    return tokens


def _repeating(found: re.Match[str]) -> str:
    """A repeating decimal as the fraction that it is."""
    whole, fixed, period = found.groups()
    bottom = (10 ** len(period) - 1) * 10 ** len(fixed)
    top = int(whole + fixed + period) - int(whole + fixed or "0")
    return f"(\\frac{{{top}}}{{{bottom}}})"


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MAX_BITS:
        raise NotRational
    return value


def _divide(top: Fraction, bottom: Fraction) -> Fraction:
    if bottom == 0:
        raise NotRational
    return _bounded(top / bottom)


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    """``base ** exponent`` for a small whole exponent."""
    if exponent.denominator != 1 or abs(exponent) > _MAX_BITS or (base == 0 and exponent < 0):
        raise NotRational
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if size * abs(int(exponent)) > 2 * _MAX_BITS:
        raise NotRational
    return _bounded(base ** int(exponent))


def _root(value: Fraction) -> Fraction:
    """Square root of a rational square."""
    if value < 0:
        raise NotRational
    top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
    if top * top != value.numerator or bottom * bottom != value.denominator:
        raise NotRational
    return Fraction(top, bottom)


def _literal(token: str) -> Fraction:
    digits = re.sub(rf"[, {GROUP}]", "", token)
    return Fraction(digits[:-1] if digits.endswith(".") else digits)


class _Reader:
    """Recursive descent over tokens; every number stays exact."""

    def __init__(self, tokens: list[str], sums: bool) -> None:
        self._tokens, self._at, self._sums = tokens, 0, sums

    def done(self) -> bool:
        return self._at == len(self._tokens)

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, *expected: str) -> str:
        token = self._peek()
        if not token or (expected and token not in expected):
            raise NotRational
        self._at += 1
        return token

    def sum(self, depth: int) -> Fraction:
        value = self._product(depth)
        while self._peek() in ("+", "-"):
            if not self._sums:
                raise NotRational
            sign = 1 if self._take() == "+" else -1
            value = _bounded(value + sign * self._product(depth))
        return value

    def _product(self, depth: int) -> Fraction:
        if depth > _MAX_DEPTH:
            raise NotRational
        if self._peek() in ("-", "+"):
            sign = -1 if self._take() == "-" else 1
            if self._peek() in ("-", "+"):
                raise NotRational
            return sign * self._product(depth + 1)
        value = self._mixed(depth)
        while self._peek() in ("*", "/", "\\cdot", "\\times", "("):
            operator = "*" if self._peek() == "(" else self._take()
            factor = self._mixed(depth)
            value = _divide(value, factor) if operator == "/" else _bounded(value * factor)
        return value

    def _mixed(self, depth: int) -> Fraction:
        """A factor; a whole number in front of a proper fraction is a mixed number."""
        start = self._peek()
        value = self._factor(depth)
        if start.isdigit() and self._peek() == "\\frac":
            part = self._factor(depth)
            if not 0 < part < 1:
                raise NotRational
            return value + part
        if start.isdigit() and self._peek().isdigit():  # 1 1/10
            top, _, bottom = _literal(self._take()), self._take("/"), _literal(self._take())
            part = _divide(top, bottom)
            if not 0 < part < 1:
                raise NotRational
            return value + part
        return value

    def _factor(self, depth: int) -> Fraction:
        value = self._atom(depth)
        if self._peek() == "!":
            self._take()
            if value.denominator != 1 or not 0 <= value <= 500:
                raise NotRational
            value = Fraction(math.factorial(int(value)))
        if self._peek() == "^":
            self._take()
            if self._peek() == "-":
                raise NotRational
            value = _power(value, self._atom(depth + 1))
        return _bounded(value)

    def _group(self, close: str, depth: int) -> Fraction:
        sums, self._sums = self._sums, True
        value = self.sum(depth + 1)
        self._sums = sums
        self._take(close)
        return value

    def _atom(self, depth: int) -> Fraction:
        if depth > _MAX_DEPTH:
            raise NotRational
        token = self._take()
        if token == "(":
            return self._group(")", depth)
        if token == "{":
            return self._group("}", depth)
        if token == "\\frac":
            top = self._braced(depth)
            return _divide(top, self._braced(depth))
        if token == "\\sqrt":
            return _root(self._braced(depth))
        if token == "\\binom":
            n, k = self._braced(depth), self._braced(depth)
            if n.denominator != 1 or k.denominator != 1 or not 0 <= k <= n <= 2000:
                raise NotRational
            return _bounded(Fraction(math.comb(int(n), int(k))))
        if token[0].isdigit() or token[0] == ".":
            return _literal(token)
        raise NotRational

    def _braced(self, depth: int) -> Fraction:
        self._take("{")
        return self._group("}", depth + 1)


def is_plain(text: str) -> bool:
    """Whether normalised ``text`` is one number as people write it, with an optional sign and currency sign."""
    return re.fullmatch(rf"[-+]?{DOLLAR}? ?[-+]?(?:{_NUMBER.pattern})", text) is not None
