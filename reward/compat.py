"""The two historic scorers, kept for reproduction: verl 0.9.1's `math_dapo` and the slime tutorial's."""

import importlib.util
import re
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

_TUTORIAL_MARK = re.compile(r"answer:", re.IGNORECASE)
_TUTORIAL_NOISE = ("\\$", "$", ",", " ", "\\text{", "\\boxed{", "}")


@lru_cache(maxsize=1)
def load_math_dapo() -> ModuleType:
    """Load the installed verl's own ``utils/reward_score/math_dapo.py`` from its file.

    The file imports nothing but ``re``; importing it through the package would pull in torch.

    Raises:
        ImportError: verl is not installed, or no longer has the file.
    """
    verl = importlib.util.find_spec("verl")
    if verl is None or verl.origin is None:
        raise ImportError("mode=verl_compat calls verl's math_dapo, and verl is not installed; use mode=strict")
    path = Path(verl.origin).parent / "utils" / "reward_score" / "math_dapo.py"
    spec = importlib.util.spec_from_file_location("_verl_math_dapo", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ImportError(f"mode=verl_compat needs {path}, which this verl does not have; install verl 0.9.1")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def verl_compat(response: str, gold: str) -> dict[str, Any]:
    """Call verl's ``math_dapo.compute_score``: a dict of ``score`` (+1/-1), ``acc`` and ``pred``."""
    return load_math_dapo().compute_score(response, gold)


def tutorial_extract(response: str) -> str | None:
    """Read the answer as the tutorial does: from the last ``Answer:`` to the end of the line, after its last ``=``."""
    start = None
    for match in _TUTORIAL_MARK.finditer(response):
        start = match.end()
    if start is None:
        return None
    return _tutorial_clean(response[start:].split("\n", 1)[0])


def _tutorial_clean(text: str) -> str:
    """The part after the last ``=``, without dollars, commas, spaces, ``\\text{``, ``\\boxed{`` and closing braces."""
    text = text.rsplit("=", 1)[-1]
    for noise in _TUTORIAL_NOISE:
        text = text.replace(noise, "")
    return text.strip()


def tutorial_gold(gold: str) -> str:
    """Reduce a numeric gold to an integer (towards zero, as ``int(float(...))`` does), then clean it like an answer."""
    for number in (int, lambda text: int(float(text))):
        try:
            return str(number(gold))
        except (ValueError, OverflowError):
            continue
    return _tutorial_clean(gold)


def tutorial(response: str, gold: str) -> tuple[bool, str | None]:
    """Score as the slime DAPO tutorial: equal strings are right. Returns the verdict and what was read."""
    pred = tutorial_extract(response)
    return pred is not None and pred == tutorial_gold(gold), pred
