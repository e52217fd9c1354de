"""The verifier's identity is stable, and follows its sources."""

import re

import pytest

from reward import identity


def test_identity():
    assert re.fullmatch(r"reward\.strict@[0-9a-f]{12}", identity.verifier_id())
    with pytest.raises(ValueError, match="mode='x'"):
        identity.verifier_id("x")


def test_a_changed_rule_changes_the_hash(tmp_path, monkeypatch):
    hashes = []
    for text in ("a = 1\n", "a = 2\n"):
        (tmp_path / "strict.py").write_text(text)
        monkeypatch.setattr(identity, "__file__", str(tmp_path / "identity.py"))
        identity.source_hash.cache_clear()
        hashes.append(identity.source_hash())
    identity.source_hash.cache_clear()
    assert hashes[0] != hashes[1]
