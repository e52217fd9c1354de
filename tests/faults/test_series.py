import random
from collections.abc import Callable

import numpy as np
import pytest

from tests.faults.series import grows, growth, problems, slope, table

SAMPLES = [120, 160, 200]


def values(count: int, shape: Callable[[int], float], spread: float = 0.0, seed: int = 0) -> list[float]:
    rng = random.Random(seed)
    return [500 + shape(i) + rng.uniform(-spread, spread) for i in range(count)]


def test_warm_up_does_not_count():
    assert growth([1.0] * 20 + [5.0] * 80) == (5.0, 0.0)
    assert not grows("memory_mb", values(150, lambda i: min(i, 50) * 10))


@pytest.mark.parametrize("spread", [0, 5, 15])
def test_a_slow_leak_is_named(spread):
    """75 KB a step at two steps a sample, 250 samples for 500 steps; no matter how large the process is."""
    leak = values(250, lambda i: 700 + 0.15 * i, spread)
    (found,) = problems({"raylet": {"memory_mb": leak, "files": [40.0, 41.0] * 125}})
    assert found.startswith("memory_mb of raylet grew by 2")
    assert grows("shared_mb", leak)
    assert grows("segments_mb", leak)


@pytest.mark.parametrize("count", SAMPLES)
def test_noise_is_flat(count):
    assert not any(grows("memory_mb", values(count, lambda i: 0, 15, seed)) for seed in range(10))
    assert not any(grows("threads", [float(40 + (seed + 7 * i * i) % 5) for i in range(count)]) for seed in range(5))


@pytest.mark.parametrize("count", SAMPLES)
@pytest.mark.parametrize("period", [10, 17, 25, 32, 40])
def test_a_garbage_collector_is_flat(count, period):
    for phase in range(0, period, 5):
        teeth = [30 * ((i + phase) % period) / period for i in range(count)]
        assert not grows("memory_mb", values(count, teeth.__getitem__, 2))
        assert not grows("files", [float((i + phase) % period * 5 // period) for i in range(count)])


@pytest.mark.parametrize("count", SAMPLES)
@pytest.mark.parametrize("share", [0.05, 0.1, 0.2])
def test_one_early_jump_is_flat(count, share):
    at = count / 3 + share * count * 2 / 3
    for spread in (0, 1, 8):
        for seed in range(4):
            assert not grows("memory_mb", values(count, lambda i: 20.0 * (i >= at), spread, seed))


def test_a_peak_does_not_tilt_the_slope():
    assert slope(np.array([3.0] * 20 + [900.0] * 3)) == 0


@pytest.mark.parametrize("quantity", ["files", "threads", "segments", "processes"])
def test_one_more_now_and_then_is_named(quantity):
    assert problems({"all": {quantity: [float(i // 40) for i in range(160)]}}) != []
    assert problems({"all": {quantity: [40.0] * 80 + [41.0] * 80}}) == []


def test_a_shrinking_series_is_flat():
    assert problems({"raylet": {"memory_mb": values(160, lambda i: -i), "files": values(160, lambda i: -i)}}) == []


def test_too_few_samples_are_a_problem():
    leak = values(200, lambda i: i)
    assert problems({"short": {"memory_mb": leak[:10]}, "long": {"files": [3.0] * 200}}) == []
    (found,) = problems({"short": {"memory_mb": leak[:10]}})
    assert found.startswith("too few samples to judge: 10, at least 30")
    (found,) = problems({})
    assert found.startswith("too few samples to judge: 0")


def test_the_table_has_level_and_growth():
    (row,) = table({"raylet": {"files": [float(i) for i in range(100)], "threads": [3.0]}})
    assert row == {"process": "raylet", "files": [66.0, 66.0], "threads": [3.0, 0.0], "samples": 100}
