"""Soft overlong punishment against equation 13 written out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward.overlong import soft_overlong_punishment


@given(st.integers(0, 5000), st.integers(2, 3000), st.data(), st.floats(0, 10))
def test_three_branches(length, l_max, data, factor):
    l_cache = data.draw(st.integers(1, l_max - 1))
    if length <= l_max - l_cache:
        expected = 0.0
    elif length <= l_max:
        expected = ((l_max - l_cache) - length) / l_cache
    else:
        expected = -1.0
    got = soft_overlong_punishment(length, l_max, l_cache, factor)
    assert got == pytest.approx(expected * factor)
    assert -factor <= got <= 0


@pytest.mark.parametrize(("l_max", "l_cache"), [(512, 4096), (512, 512), (512, 0), (512, -1), (0, 0)])
def test_bad_interval_is_refused(l_max, l_cache):
    with pytest.raises(ValueError, match=str(l_cache)):
        soft_overlong_punishment(100, l_max, l_cache)


@pytest.mark.parametrize(
    ("l_max", "l_cache", "factor"), [(512.5, 10, 1.0), (512, "16", 1.0), (512, 16, -1.0), (512, 16, float("nan"))]
)
def test_bad_types_and_factors_are_refused(l_max, l_cache, factor):
    with pytest.raises(ValueError, match="overlong_buffer_cfg"):
        soft_overlong_punishment(100, l_max, l_cache, factor)
