from itertools import pairwise

from recipe.sampling_seed import group_uid, sampling_seed


def test_the_seed_of_the_run_and_the_position_decide():
    names = {(seed, position): group_uid(seed, position) for seed in (1, 2) for position in range(1000)}
    assert len(set(names.values())) == 2000
    assert group_uid(1, 7) == names[1, 7]
    assert all("_" not in name for name in names.values())  # keys are {uid}_{session}_{index}


def test_seeds_of_samples_do_not_meet():
    seeds = sorted(sampling_seed(group_uid(1, position)) for position in range(10_000))
    assert min(b - a for a, b in pairwise(seeds)) > 64  # samples a group
    assert 0 <= seeds[0] < seeds[-1] < 2**48
