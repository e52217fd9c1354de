"""Name and content hash of the verifier, so that two results can be told to come from the same one."""

import hashlib
from functools import lru_cache
from pathlib import Path

from reward.verdict import MODES, check_choice

# What decides a verdict; the shells around it (manager, command line, self-test) do not.
_SHELLS = frozenset(
    (
        "manager.py",
        "score.py",
        "selftest.py",
        "scoring.py",
        "identity.py",
        "settings.py",
        "overlong.py",
        "provenance.py",
    )
)


@lru_cache(maxsize=1)
def source_hash() -> str:
    """First 12 hex digits of the SHA-256 over the grading sources, in name order."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.name not in _SHELLS:
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def verifier_id(mode: str = "strict") -> str:
    """Identity to write beside results, e.g. ``reward.strict@1a2b3c4d5e6f``.

    Raises:
        ValueError: ``mode`` is unknown.
    """
    check_choice("mode", mode, MODES)
    return f"reward.{mode}@{source_hash()}"
