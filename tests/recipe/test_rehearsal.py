"""A dress rehearsal keeps the recipe's ratios and changes nothing that it does not say."""

import pytest
from omegaconf import OmegaConf

from recipe.errors import ConfigError
from recipe.preflight import check_recipe
from recipe.rehearsal import account, architecture, fresh, phases, rehearsal_words
from recipe.rehearsal_scale import scaled
from tests.recipe.recipes import NAMES, composed, flat, words

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
SAMPLER = "trainer.v1.sampler.sampler_kwargs"


@pytest.mark.parametrize(
    "name", ["dapo_qwen2.5_32b", "dapo_qwen2.5_7b_math", "dapo_qwen3.5_4b", "dapo_qwen3_4b_single_node"]
)
def test_ratios_are_kept(name):
    recipe = flat(*words(name))
    values = {**recipe, **scaled(recipe)}

    def ratio(of, a, b):
        return of[a] / of[b]

    kept = [
        ("data.train_batch_size", f"{ACTOR}.ppo_mini_batch_size", 0),
        ("reward.reward_kwargs.overlong_buffer_cfg.len", "data.max_response_length", 0.01),
        (f"{SAMPLER}.max_in_flight", "data.train_batch_size", 0.05),
        (f"{ACTOR}.ppo_max_token_len_per_gpu", f"{ROLLOUT}.max_model_len", 0.01),
        (f"{ROLLOUT}.log_prob_max_token_len_per_gpu", f"{ROLLOUT}.max_model_len", 0.01),
    ]
    for a, b, tolerance in kept:
        assert ratio(values, a, b) == pytest.approx(ratio(recipe, a, b), abs=tolerance), (a, b)
    window = values["data.max_prompt_length"] + values["data.max_response_length"]
    assert values[f"{ROLLOUT}.max_model_len"] == window <= values[f"{ACTOR}.ppo_max_token_len_per_gpu"]
    assert values[f"{ROLLOUT}.max_num_batched_tokens"] >= values[f"{ROLLOUT}.max_num_seqs"]
    assert values["data.train_batch_size"] <= 32


def test_the_bound_is_scaled_with_the_batch():
    assert scaled(flat(*words("dapo_qwen2.5_32b")))[f"{SAMPLER}.bounds.max_generated"] == 30 * 16
    assert f"{SAMPLER}.bounds.max_generated" not in scaled(flat(*words("dapo_qwen2.5_7b_math")))  # null there


def test_nothing_else_changes():
    name = "dapo_qwen2.5_7b_math"
    recipe = composed(*words(name))
    config = composed(*rehearsal_words(list(words(name)), recipe))
    assert account(recipe, config)["unexpected"] == {}
    for key in ("optim.lr", "clip_ratio_high", "loss_agg_mode", "fsdp_config.param_offload"):
        assert OmegaConf.select(config, f"{ACTOR}.{key}") == flat(*words(name))[f"{ACTOR}.{key}"]


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_can_be_rehearsed(name):
    recipe = composed(*words(name))
    config = composed(*rehearsal_words(list(words(name)), recipe))
    assert check_recipe(config) == []
    assert (config.trainer.nnodes, config.trainer.n_gpus_per_node) == (1, 1)
    size = f"{ACTOR}.fsdp_config.fsdp_size"
    if OmegaConf.select(recipe, size) != -1:
        assert size in account(recipe, config)["forbidden"]


def test_a_word_of_the_users_cannot_undo_what_a_cpu_forbids():
    own = {
        f"{ROLLOUT}.tensor_model_parallel_size": "2",
        f"{ROLLOUT}.gpu_memory_utilization": "0.9",
        f"{ACTOR}.ulysses_sequence_parallel_size": "4",
        "trainer.n_gpus_per_node": "4",
        "actor_rollout_ref.model.use_remove_padding": "true",
        "+actor_rollout_ref.model.override_config.attn_implementation": "flash_attention_2",
        "ray_kwargs.ray_init.num_cpus": "4",
    }
    real = [*words("dapo_qwen3_4b_single_node"), *(f"{key}={value}" for key, value in own.items())]
    recipe = composed(*real)
    config = composed(*rehearsal_words(real, recipe))
    assert check_recipe(config) == []
    plain = rehearsal_words(list(words("dapo_qwen3_4b_single_node")), composed(*words("dapo_qwen3_4b_single_node")))
    for key in own:
        assert OmegaConf.select(config, key.lstrip("+")) == OmegaConf.select(composed(*plain), key.lstrip("+")), key
    assert account(recipe, config)["unexpected"] == {}


def test_a_second_rehearsal_starts_anew(tmp_path):
    run_dir, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    fresh(run_dir)
    (run_dir / "checkpoints/global_step_3").mkdir(parents=True)
    (run_dir / "rehearsal.json").touch()
    (elsewhere / "kept").mkdir(parents=True)
    (run_dir / "link").symlink_to(elsewhere)
    fresh(run_dir)
    assert [path.name for path in run_dir.iterdir()] == [".rehearsal"]
    assert (elsewhere / "kept").is_dir()


def test_a_folder_that_no_rehearsal_made_is_left_alone(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(ConfigError, match="was not made by a rehearsal"):
        fresh(tmp_path)
    assert (tmp_path / "checkpoints").is_dir()


def test_every_phase_works_on_what_the_one_before_wrote():
    recipe = composed(*words("dapo_qwen2.5_7b_math"))
    rehearsed = rehearsal_words(list(words("dapo_qwen2.5_7b_math")), recipe)
    found = {phase.name: phase.command[2:] for phase in phases(rehearsed, composed(*rehearsed), *architecture(recipe))}
    assert list(found) == ["data", "model", "train", "resume", "export", "evaluate"]
    assert found["model"][-4:] == ["--architecture", "qwen2", "--positions", "4096"]
    run_dir = composed(*rehearsed).run_dir
    assert f"--out={run_dir}/base_model" in found["model"]
    assert found["resume"][:-1] == found["train"]
    assert found["export"][1:] == ["--checkpoint", f"{run_dir}/checkpoints", "--out", f"{run_dir}/model"]
    assert f"{run_dir}/model" in found["evaluate"]


def test_an_unlisted_change_is_found():
    real, other = composed(*words("dapo_qwen2.5_32b")), composed(*words("dapo_qwen2.5_32b"))
    other.actor_rollout_ref.actor.optim.lr = 1e-3
    assert account(real, other)["unexpected"] == {f"{ACTOR}.optim.lr": (1e-6, 1e-3)}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Qwen/Qwen2.5-32B", ("qwen2", 32768)),
        ("Qwen/Qwen2.5-Math-7B", ("qwen2", 4096)),
        ("Qwen/Qwen3-4B-Base", ("qwen3", 32768)),
        ("Qwen/Qwen3.5-4B", ("qwen3_5", 32768)),
    ],
)
def test_architecture_by_name(name, expected):
    assert architecture(OmegaConf.create({"actor_rollout_ref": {"model": {"path": name}}})) == expected


def test_architecture_of_the_models_own_files(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama", "max_position_embeddings": 77}')
    assert architecture(OmegaConf.create({"actor_rollout_ref": {"model": {"path": str(tmp_path)}}})) == ("llama", 77)


def test_unknown_architecture_is_said():
    with pytest.raises(ConfigError, match="Gemma"):
        architecture(OmegaConf.create({"actor_rollout_ref": {"model": {"path": "org/Gemma"}}}))
