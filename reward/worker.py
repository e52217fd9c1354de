"""Worker process that does the mathematics: math-verify and sympy, one question a line, killed by its owner when late.

Runs as its own interpreter (no verl, torch or Ray, no multiprocessing, so it may be started from a daemonic process).
Protocol: a JSON line ``[operation, gold, pred, seconds]`` in, one ``[equal, note]`` out; the first line out is "ready".
It ends when its input closes, when its parent is gone, or by the kernel's alarm when a question takes far too long.
"""

import json
import os
import re
import resource
import signal
import sys
import threading
import time
from functools import lru_cache
from typing import Any

_MEMORY_BYTES = 4 << 30
_GRACE_S = 2.0
_DIGITS = 50
_POINTS = 4
_TOLERANCE = 1e-25


def _preprocess(text: str, both_cases: frozenset[str]) -> str:
    """Spell for math-verify: degrees off, names kept apart by case where the question uses both."""
    text = text.replace("\x01", "").replace("\x02", "").replace("^\\circ", "").replace("\\infinity", "\\infty")
    text = re.sub(r"(?<![0-9.])([0-9]+) ?(\\frac\{[0-9]+\}\{[0-9]+\})", r"(\1+\2)", text)
    for letter in sorted(both_cases):
        text = re.sub(rf"(?<![\\A-Za-z]){letter}(?![a-z])", rf"{letter}_{{9}}", text)
    text = re.sub(r"\\exp ?\{?\(([^()]*)\)\}?", r"e^{\1}", text)
    return text.replace("*", "\\cdot ")


def _both_cases(one: str, other: str) -> frozenset[str]:
    letters = set(re.sub(r"\\[A-Za-z]+", " ", one + other))
    return frozenset(letter for letter in letters if letter.isupper() and letter.lower() in letters)


def _config(kind: Any) -> Any:
    """Normalisation without unit removal: units are compared before, and a letter is not to vanish."""
    return kind(basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none", equations=False)


@lru_cache(maxsize=512)
def _parse(text: str) -> Any:
    """Sympy object of one LaTeX text, or None."""
    from latex2sympy2_extended import NormalizationConfig
    from math_verify import LatexExtractionConfig, parse

    found = parse(
        f"${text}$",
        extraction_config=[
            LatexExtractionConfig(boxed_match_priority=-1, normalization_config=_config(NormalizationConfig))
        ],
        fallback_mode="no_fallback",
        parsing_timeout=None,
    )
    return found[0] if found and not isinstance(found[0], str) else None


def _imaginary(expression: Any) -> Any:
    """Read the symbol ``i`` as the imaginary unit."""
    from sympy import I

    names = {symbol: I for symbol in expression.free_symbols if symbol.name == "i"}
    return expression.subs(names) if names else expression


def _is_zero(difference: Any, scale: Any) -> bool:
    """Whether an expression vanishes: at several points with 50 digits, and exactly when it has no variable."""
    from sympy import Rational

    symbols = sorted(difference.free_symbols | scale.free_symbols, key=str)
    if not symbols:
        value = difference.doit()
        if value.is_Rational:
            return bool(value == 0)
    values = [Rational(37 + 16 * k, 53) for k in range(len(symbols) + _POINTS)]
    checked = 0
    for point in range(_POINTS + len(symbols)):
        place = {s: values[(k * 3 + point) % len(values)] + Rational(k, 7) for k, s in enumerate(symbols)}
        negated = point - _POINTS  # then one variable after the other is negative: |x| is not x
        if negated >= 0:
            place[symbols[negated]] *= -1
        gap, size = (e.subs(place).doit().evalf(_DIGITS) for e in (difference, scale))
        if not gap.is_number or gap.is_finite is False or str(gap) == "nan":
            continue
        if negated >= 0 and not (gap.is_real and size.is_real):
            continue  # roots and logarithms of negative numbers: their domain, not their value, differs
        checked += 1
        if abs(gap) > _TOLERANCE * (1 + abs(size)) * (1 if symbols else _small(size)):
            return False
        if not symbols:
            break
    return checked > 0


def _small(size: Any) -> float:
    """Relative, not absolute, tolerance for constants smaller than one."""
    return float(min(1, abs(size))) if size != 0 else 1.0


def _equal(gold: Any, pred: Any) -> bool:
    """Two expressions: numerically at 50 digits; what is no ordinary expression goes to math-verify."""
    from math_verify import verify
    from sympy import Expr

    if isinstance(gold, Expr) and isinstance(pred, Expr):
        gold, pred = _imaginary(gold), _imaginary(pred)
        if gold.has(_infinity()) or pred.has(_infinity()):
            return bool(gold == pred)
        return _is_zero(gold - pred, gold)
    return bool(verify(gold, pred, strict=True, timeout_seconds=None))


def _infinity() -> Any:
    from sympy import oo

    return oo


def _proportional(one: Any, other: Any) -> Any:
    """Constant c with ``one = c * other``, or None."""
    from sympy import expand, simplify

    one, other = expand(_imaginary(one)), expand(_imaginary(other))
    if other == 0 or one == 0:
        return None
    ratio = simplify(one / other)
    return None if ratio.free_symbols or ratio == 0 else ratio


def _sides(relation: Any) -> Any:
    """Left minus right of an equation or inequality, or None."""
    return relation.lhs - relation.rhs if hasattr(relation, "lhs") and hasattr(relation, "rhs") else None


def _same_relation(operation: str, gold: Any, pred: Any) -> bool:
    """Equations up to a constant factor; inequalities up to a positive one, a negative one turns them round."""
    from sympy import Ge, Gt, Le, Lt, Ne

    one, other = _sides(gold), _sides(pred)
    if one is None or other is None:
        return False
    ratio = _proportional(one, other)
    if ratio is None or not ratio.is_real:
        return False
    if operation == "equation" or isinstance(gold, Ne):
        return isinstance(pred, type(gold))
    turned = {Le: Ge, Ge: Le, Lt: Gt, Gt: Lt}.get(type(gold))
    return isinstance(pred, type(gold) if ratio > 0 else turned or type(gold))


def answer(operation: str, gold: str, pred: str) -> bool:
    """Decide one question; see ``reward.compare.Symbolic``."""
    cases = _both_cases(gold, pred)
    one, other = _parse(_preprocess(gold, cases)), _parse(_preprocess(pred, cases))
    if one is None or other is None:
        return False
    return _equal(one, other) if operation == "equal" else _same_relation(operation, one, other)


def _watch_parent(parent: int) -> None:
    """End this process within a second of its parent's end; a call that holds the interpreter, at the alarm instead."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)


def main() -> None:
    """Serve questions from standard input until it closes."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115  libraries may print; the pipe carries answers only
    os.dup2(sys.stdout.fileno(), 1)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    threading.Thread(target=_watch_parent, args=(os.getppid(),), daemon=True).start()
    answer("equal", "\\frac{1}{2}", "\\sqrt{\\frac{1}{4}}")  # imports sympy and warms the parser
    out.write("ready\n")
    for line in sys.stdin:
        operation, gold, pred, seconds = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE_S)  # no handler: the kernel ends a stuck worker
        try:
            reply = [answer(operation, gold, pred), ""]
        except Exception as error:  # model text reaches sympy: whatever it raises is "not equal", and reported
            reply = [False, type(error).__name__]
        signal.setitimer(signal.ITIMER_REAL, 0)
        out.write(json.dumps(reply) + "\n")


if __name__ == "__main__":
    main()
