"""A few responses of each step as text, of groups that train and of groups that the filter dropped."""

import itertools
import json
from unittest import mock

import pytest
import torch

from recipe import queue_texts
from recipe.examples import FILTERED, KINDS, RIGHT, TRUNCATED, WRONG, ExampleLog, kind_of
from tests.recipe import test_dynamic_sampling as sampling


def test_a_dropped_group_is_filtered_whatever_its_samples_are():
    assert kind_of(1.0, True, "all_correct") == FILTERED
    assert [kind_of(1.0, True), kind_of(1.0, False), kind_of(0.0, False)] == [TRUNCATED, RIGHT, WRONG]


def test_one_of_a_kind_from_a_group_until_the_step_has_enough():
    log = ExampleLog("unused", 2)
    group = {f"k{i}": {"acc": acc} for i, acc in enumerate([1.0, 1.0, 0.0, 0.0])}
    assert log.choose(group, "kept") == {"k0": RIGHT, "k2": WRONG}
    assert log.choose(group, "all_wrong") == {"k0": FILTERED}
    assert log.choose(group, "kept") == {"k0": RIGHT, "k2": WRONG}
    assert log.choose(group, "kept") == {}
    log.begin()
    assert set(log.choose(group, "kept").values()) == {RIGHT, WRONG}


@pytest.mark.parametrize(("folder", "per_kind"), [(None, 2), ("unused", 0)])
def test_off_keeps_nothing(folder, per_kind):
    assert ExampleLog(folder, per_kind).choose({"k": {"acc": 1.0}}, "kept") == {}


@pytest.mark.parametrize("per_kind", [-1, 1.5, True])
def test_wrong_number_is_refused(per_kind):
    with pytest.raises(ValueError, match="per_kind"):
        ExampleLog("unused", per_kind)


class EngineWithTexts(sampling.FakeEngine):
    """Gives token ids and golds too, as TransferQueue does: nested tensors, and plain values in a wrapper."""

    def kv_batch_get(self, keys, partition_id, select_fields=None):
        if select_fields == ["extra_fields"]:
            return super().kv_batch_get(keys, partition_id, select_fields)
        assert all(key in self.items[partition_id] for key in keys), "the texts of a cleared group are gone"
        numbers = [int(key.split("_")[0][1:]) for key in keys]
        return {
            "prompts": torch.nested.nested_tensor([torch.tensor([n] * (n + 1)) for n in numbers], layout=torch.jagged),
            "responses": torch.nested.nested_tensor([torch.tensor([n, 7]) for n in numbers], layout=torch.jagged),
            "reward_model": [mock.Mock(data={"ground_truth": f"gold {n}"}) for n in numbers],
        }


def test_sampler_keeps_texts_of_trained_and_of_dropped_groups(tmp_path):
    engine = EngineWithTexts(itertools.cycle([sampling.WRONG, sampling.MIXED]))
    sampler = sampling.make(engine)
    sampler.examples = ExampleLog(str(tmp_path), 1)
    sampler.decode = str
    with mock.patch.object(queue_texts, "tq", engine):
        sampling.sample(engine, step=5)
    rows = [json.loads(line) for line in (tmp_path / "5.jsonl").read_text().splitlines()]
    assert [row["kind"] for row in rows] == [kind for kind in KINDS if kind != TRUNCATED]
    for row in rows:
        number = int(row["uid"].split("_")[0][1:])
        assert (row["step"], row["gold"], row["response"]) == (5, f"gold {number}", f"[{number}, 7]")
        assert row["prompt"] == str([number] * (number + 1))
    dropped = rows[-1]
    assert (dropped["reason"], dropped["acc"], dropped["group_accuracy"], dropped["reward"]) == ("all_wrong", 0, 0, -1)
