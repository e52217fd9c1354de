"""Series of memory and counts as processes have them: flat ones with their noise, and leaks."""

import random

import pytest

from tests.faults.series import ALLOWED, growth, problems, table

SAMPLES = 150  # about those of 500 steps
RNG = random.Random(0)


def noise(mb):
    return [RNG.uniform(-mb, mb) for _ in range(SAMPLES)]


def saw(period, mb):
    return [mb * (i % period) / period for i in range(SAMPLES)]


def jump(at, by):
    return [by * (i >= at) for i in range(SAMPLES)]


def leak(by):
    return [by * i for i in range(SAMPLES)]


def added(*parts):
    return [500.0 + sum(values) for values in zip(*parts, strict=True)]


@pytest.mark.parametrize(
    "memory",
    [
        noise(15),
        added(noise(2), saw(10, 30)),
        added(noise(2), saw(40, 30)),
        added(noise(2), jump(40, 20)),
        added(noise(2), jump(90, 20)),
        added([100 * (i < 20) for i in range(SAMPLES)], noise(2)),
    ],
    ids=["noise", "garbage collector", "slow garbage collector", "arena", "later arena", "falls after the start"],
)
def test_memory_that_stays(memory):
    assert problems({"raylet": {"memory_mb": memory}}) == []


@pytest.mark.parametrize("scatter", [1, 4])
def test_75_kb_a_step_are_a_leak(scatter):
    (found,) = problems({"raylet": {"memory_mb": added(leak(0.075 * 500 / SAMPLES), noise(scatter))}})
    assert found.startswith("memory_mb of raylet grew from 50")


@pytest.mark.parametrize("quantity", ["files", "threads", "segments", "processes"])
def test_counts(quantity):
    assert problems({"all": {quantity: [40.0, 41.0] * (SAMPLES // 2)}}) == []
    assert problems({"all": {quantity: added(jump(60, 3))}}) == []  # a pool that was opened
    assert problems({"all": {quantity: [float(i // 40) for i in range(SAMPLES)]}}) != []


def test_growth_is_the_slope_times_the_time_after_warm_up():
    level, more, scatter = growth([0.0] * 20 + [2.0 * i for i in range(80)])
    assert (level, more, scatter) == (0.0, 158.0, 0.0)


def test_too_few_samples_are_no_verdict():
    assert "let it run longer" in problems({"short": {"memory_mb": leak(1)[:10]}})[0]


def test_the_table_has_level_and_growth():
    (row,) = table({"raylet": {"files": [3.0] * 100}})
    assert row == {"process": "raylet", "files": [3.0, 0.0], "samples": 100}


def test_every_quantity_has_a_limit():
    assert set(ALLOWED) == {"memory_mb", "shared_mb", "files", "threads", "segments", "processes"}
