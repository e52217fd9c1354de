import random

from tests.faults.series import growth, problems, table


def test_warm_up_does_not_count():
    assert growth([1.0] * 20 + [5.0] * 80) == (5.0, 0.0)


def test_noise_is_flat_and_a_leak_is_named():
    rng = random.Random(0)
    flat = [500 + rng.uniform(-15, 15) for _ in range(200)]
    leak = [500 + 0.5 * i + rng.uniform(-15, 15) for i in range(200)]
    series: dict[str, dict[str, list[float]]] = {
        "ray::WorkerDict": {"memory_mb": flat, "files": [40, 41] * 100},
        "raylet": {"memory_mb": leak},
    }
    (found,) = problems(series)
    assert found.startswith("memory_mb of raylet grew from 5")
    assert problems({"raylet": {"files": [float(i // 10) for i in range(200)]}}) != []
    assert problems({"short": {"memory_mb": leak[:10]}}) == []


def test_the_table_has_level_and_growth():
    (row,) = table({"raylet": {"files": [3.0] * 50 + [5.0] * 50}})
    assert row == {"process": "raylet", "files": [3.0, 2.0], "samples": 100}
