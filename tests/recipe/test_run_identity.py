"""What a resume may change and what not, through the identity that checkpoints store."""

import json

import pytest

from recipe.checkpoints import write_state
from recipe.preflight import check_changed_settings
from recipe.preflight.storage import resumable, trained_already
from recipe.resume_rules import EARLIER, changes, resume_problems
from recipe.run_identity import data_identity, identity, model_digest
from tests.recipe.inputs import write_data, write_model
from tests.recipe.test_checkpoints import make
from tests.recipe.variants import variant


@pytest.fixture
def run(tmp_path):
    """A recipe with data, model and a complete checkpoint of step 3; call it with overrides for the next start."""
    write_data(tmp_path / "train.parquet", [f"p{i}" for i in range(40)], card={})
    write_model(tmp_path / "model")
    paths = [
        f"run_dir={tmp_path}",
        f"data.train_files={tmp_path}/train.parquet",
        f"data.val_files={tmp_path}/train.parquet",
        f"actor_rollout_ref.model.path={tmp_path}/model",
    ]

    def start(*overrides):
        return variant(*paths, *overrides)

    folder = make(tmp_path / "checkpoints", 3)
    stored = json.loads(json.dumps(identity(start())))  # as a checkpoint stores it
    write_state(folder, {"run": stored})
    return start


def test_the_same_command_resumes(run):
    assert list(resumable(run())) == []
    assert check_changed_settings(run()) == []


FREE = {
    "steps": "trainer.total_training_steps=50",
    "saving": "trainer.save_freq=1",
    "validation": "trainer.test_freq=3",
    "logger": "trainer.logger=[console]",
    "name": "trainer.experiment_name=other",
    "logs": "trainer.rollout_data_dir=/elsewhere",
    "tokens of a micro-batch": "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=4096",
    "engine": "actor_rollout_ref.rollout.max_num_seqs=16",
    "attention": "actor_rollout_ref.model.override_config.attn_implementation=eager",
    "what happens at a bound": "trainer.v1.sampler.sampler_kwargs.bounds.on_exhausted=train_partial",
    "in flight": "trainer.v1.sampler.sampler_kwargs.max_in_flight=7",
    "validation samples": "actor_rollout_ref.rollout.val_kwargs.n=1",
}


@pytest.mark.parametrize("name", FREE)
def test_free_to_change(run, name):
    assert list(resumable(run(FREE[name]))) == []


LOAD_BEARING = {
    "actor_rollout_ref.actor.optim.lr=0.001": "actor_rollout_ref.actor.optim.lr: 0.0002 -> 0.001",
    "actor_rollout_ref.actor.clip_ratio_high=0.2": "actor_rollout_ref.actor.clip_ratio_high: 0.28 -> 0.2",
    "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean": '"token-mean" -> "seq-mean-token-mean"',
    "actor_rollout_ref.actor.ppo_mini_batch_size=16": "actor_rollout_ref.actor.ppo_mini_batch_size: 8 -> 16",
    "algorithm.filter_groups.enable=false": "algorithm.filter_groups.enable: true -> false",
    "data.max_response_length=48": "data.max_response_length: 64 -> 48",
    "reward.reward_kwargs.overlong_buffer_cfg.len=16": "reward.reward_kwargs.overlong_buffer_cfg.len: 24 -> 16",
    "overlong_filtering.enable=true": "overlong_filtering.enable: false -> true",
    "actor_rollout_ref.actor.fsdp_config.model_dtype=bf16": 'actor.fsdp_config.model_dtype: "fp32" -> "bf16"',
    "actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype=bf16": 'param_dtype: "fp32" -> "bf16"',
    "actor_rollout_ref.model.lora_rank=8": "actor_rollout_ref.model.lora_rank: 0 -> 8",
    "actor_rollout_ref.rollout.do_sample=false": "actor_rollout_ref.rollout.do_sample: true -> false",
    "actor_rollout_ref.rollout.agent.default_agent_loop=single_turn_agent": '"dapo_single_turn" -> "single_turn_agent"',
    "trainer.v1.sampler.custom_sampler.name=Mine": 'custom_sampler.name: "DynamicSampler" -> "Mine"',
    "data.custom_cls.path=/my/data.py": 'data.custom_cls.path: not set -> "/my/data.py"',
    "trainer.v1.sampler.sampler_kwargs.bounds.give_up_after_s=9": "bounds.give_up_after_s: 3600 -> 9",
    "+reward.reward_kwargs.reward_scale=zero_one": 'reward.reward_kwargs.reward_scale: not set -> "zero_one"',
}


@pytest.mark.parametrize("override", LOAD_BEARING)
def test_changed_setting_is_named_and_refused_unless_allowed(run, override):
    found = "\n".join(resumable(run(override)))
    assert LOAD_BEARING[override] in found
    assert "allow_changed_resume=true" in found
    assert LOAD_BEARING[override] in "\n".join(check_changed_settings(run(override)))
    assert list(resumable(run(override, "allow_changed_resume=true"))) == []


def test_a_checkpoint_of_before_these_keys_were_stored(run):
    stored = identity(run())
    for key in EARLIER:
        assert stored["config"].pop(key) == EARLIER[key]
    assert changes(stored, identity(run())) == ([], [])
    found = changes(stored, identity(run("actor_rollout_ref.model.lora_rank=8")))
    assert found == ([], ["actor_rollout_ref.model.lora_rank: 0 -> 8"])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.train_batch_size=16", "data.train_batch_size: 32 -> 16"),
        ("actor_rollout_ref.rollout.n=4", "actor_rollout_ref.rollout.n: 8 -> 4"),
        ("data.shuffle=false", "data.shuffle: true -> false"),
        ("data.seed=7", "data.seed: 1 -> 7"),
    ],
)
def test_what_counts_through_the_data_is_never_changed(run, override, message):
    (found,) = resumable(run(override, "allow_changed_resume=true"))
    assert message in found
    assert "skip or repeat data" in found
    assert "allow_changed_resume" not in found


def test_changed_seed_names_each_order_that_follows(run):
    found = "\n".join(resumable(run("seed=2")))
    assert "seed: 1 -> 2" in found
    assert "data.seed: 1 -> 2" in found


def test_other_data_are_refused_in_any_case(run, tmp_path):
    write_data(tmp_path / "train.parquet", [f"q{i}" for i in range(41)], card={})
    (found,) = resumable(run("allow_changed_resume=true"))
    assert "data.train_files: train.parquet (40 rows, " in found
    assert "-> train.parquet (41 rows, " in found


def test_same_data_under_another_path_or_without_their_card(run, tmp_path):
    (tmp_path / "moved").mkdir()
    (tmp_path / "train.parquet").rename(tmp_path / "moved" / "data.parquet")
    moved = f"{tmp_path}/moved/data.parquet"
    assert list(resumable(run(f"data.train_files={moved}", f"data.val_files={moved}"))) == []


def test_card_hash_is_stored(run, tmp_path):
    (stored,) = identity(run())["data"]
    assert stored["rows"] == 40
    assert len(stored["card_sha256"]) == len(stored["sha256"]) == 64
    (tmp_path / "train.card.json").unlink()
    assert data_identity(tmp_path / "train.parquet")["card_sha256"] is None


def test_other_model_is_refused_by_its_content_not_its_path(run, tmp_path):
    (tmp_path / "model").rename(tmp_path / "same")
    assert list(resumable(run(f"actor_rollout_ref.model.path={tmp_path}/same"))) == []
    weights = tmp_path / "same" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\0")
    (found,) = resumable(run(f"actor_rollout_ref.model.path={tmp_path}/same"))
    assert f"actor_rollout_ref.model.path: {tmp_path}/model (" in found


def test_digest_sees_both_ends_of_a_large_file(tmp_path):
    write_model(tmp_path)
    weights = tmp_path / "model.safetensors"
    digests = set()
    for content in (b"a" * 3_000_000, b"b" + b"a" * 2_999_999, b"a" * 2_999_999 + b"b"):
        weights.write_bytes(content)
        digests.add(model_digest(tmp_path))
    assert len(digests) == 3


def test_identity_of_an_older_version_is_refused(tmp_path):
    (found,) = resume_problems(tmp_path, {"train_rows": 40}, {"config": {}, "data": [], "model": {}}, allowed=True)
    assert "older version" in found


def test_nothing_has_changed_between_equal_identities(run):
    assert changes(identity(run()), identity(run())) == ([], [])


def test_trained_to_the_end_and_beyond(run):
    assert trained_already(run("trainer.total_training_steps=3")).name == "global_step_3"
    assert trained_already(run()) is None
    (found,) = resumable(run("trainer.total_training_steps=2"))
    assert "trained further already" in found
    assert found == check_changed_settings(run("trainer.total_training_steps=2"))[0]


def test_named_checkpoint_that_is_incomplete(run, tmp_path):
    folder = tmp_path / "checkpoints" / "global_step_3"
    (folder / "data.pt").unlink()
    (found,) = resumable(run("trainer.resume_mode=resume_path", f"trainer.resume_from_path={folder}"))
    assert "global_step_3 lacks, or holds cut short, data.pt for 1 ranks" in found


def test_nothing_is_compared_on_a_fresh_start(run):
    assert list(resumable(run("trainer.resume_mode=disable", "seed=9"))) == []
