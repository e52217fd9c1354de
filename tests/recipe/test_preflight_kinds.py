"""A value of another kind than its default's is refused with key and value, before a rule calculates with it."""

import re
import sys

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir

from recipe.compose import compose, verl_config_dir, verl_package_dir
from recipe.errors import ConfigError
from recipe.main_dapo import settle_paths
from recipe.preflight import check_recipe
from recipe.preflight.__main__ import main
from recipe.preflight.kinds import NULLABLE
from recipe.preflight.known import ADVANTAGES, LOSS_MODES
from recipe.resolved import flatten
from tests.recipe.recipes import NAMES, words
from tests.recipe.variants import ACTOR, BUFFER, ROLLOUT, SAMPLER, variant

WRONG = {
    "algorithm.filter_groups.enable='no'": "must be true or false; its default is true",
    f"{BUFFER}.enable='off'": "must be true or false",
    f"{ACTOR}.use_kl_loss='no'": "must be true or false",
    "allow_changed_resume='no'": "must be true or false; its default is false",
    "trainer.val_before_train=1": "must be true or false",
    "algorithm.use_kl_in_reward=null": "must be true or false",
    f"{ACTOR}.optim.lr=fast": "must be a number",
    f"{ACTOR}.optim.weight_decay=abc": "must be a number",
    f"{ACTOR}.optim.clip_grad=abc": "must be a number",
    f"{ACTOR}.optim.lr_warmup_steps=abc": "must be a number",
    f"{ACTOR}.optim.lr_warmup_steps=1.5": "must be a whole number",
    f"{ACTOR}.clip_ratio_c=abc": "must be a number",
    f"{ACTOR}.clip_ratio_low=abc": "must be a number",
    f"{ACTOR}.clip_ratio_high=abc": "must be a number",
    f"{ACTOR}.entropy_coeff=abc": "must be a number",
    f"{ACTOR}.ppo_max_token_len_per_gpu=abc": "must be a number",
    f"{ACTOR}.fsdp_config.fsdp_size=abc": "must be a number",
    f"{ACTOR}.fsdp_config.fsdp_size=null": "must be a number; its default is -1",
    f"{ACTOR}.fsdp_config.fsdp_size=[1]": "must be a number",
    f"{ROLLOUT}.log_prob_max_token_len_per_gpu=abc": "must be a number",
    f"{ROLLOUT}.gpu_memory_utilization=abc": "must be a number",
    f"{ROLLOUT}.max_model_len=abc": "must be a number",
    f"{ROLLOUT}.max_num_seqs=abc": "must be a number",
    f"{ROLLOUT}.val_kwargs.temperature=abc": "must be a number",
    f"{ROLLOUT}.agent.num_workers=abc": "must be a number",
    f"{ROLLOUT}.dtype=16": "must be a text",
    f"{BUFFER}.len=abc": "must be a number",
    f"{BUFFER}.penalty_factor=abc": "must be a number",
    f"{SAMPLER}.chunk=abc": "must be a number",
    f"{SAMPLER}.history.skip=abc": "must be a number",
    f"{SAMPLER}.max_reward_error_share=abc": "must be a number",
    f"{SAMPLER}.group_size=abc": "must be a number",
    "preflight.gpu_memory_gb=abc": "must be a number",
    "trainer.max_actor_ckpt_to_keep=abc": "must be a number",
    "health.truncated=.nan": "must be a finite number",
    "data.train_files=5": "must be a text or a list of texts",
    "data.train_files=null": "must be a text",
    "data.val_files=[1]": "must be a text or a list of texts",
    f"{ACTOR}.checkpoint.save_contents=model": "must be a list",
    "trainer.logger=5": "must be a text or a list of texts",
    "+foo=1": "is a key that nothing reads",
    "+trianer=1": "did you mean trainer?",
}


@pytest.mark.parametrize("word", WRONG)
def test_wrong_kind_gets_its_message(word):
    (found,) = check_recipe(variant(word))
    key, _, value = word.lstrip("+").partition("=")
    assert found.startswith(f"{key}={value.strip(chr(39)).lstrip('.')} ")
    assert WRONG[word] in found


@pytest.mark.parametrize("key", ["reward", "algorithm", "health", "trainer.v1", "ray_kwargs", "preflight", "trainer"])
def test_a_section_stays_a_section(key):
    config = variant()
    parent, _, name = key.rpartition(".")
    (config[parent] if parent else config)[name] = "abc"
    (found,) = check_recipe(config)
    assert f"{key}=abc must be a section: set one of its keys, such as {key}." in found


def test_wrong_kinds_and_counts_are_reported_at_once():
    assert len(check_recipe(variant(f"{ACTOR}.use_kl_loss='no'", "trainer.nnodes=0", "seed=x"))) == 3


@pytest.mark.parametrize(
    "word",
    [
        f"{SAMPLER}.bounds.max_passes=0.5",
        f"{SAMPLER}.filter.low=null",
        f"{SAMPLER}.max_in_flight=40",
        f"{ACTOR}.optim.weight_decay=0",
        f"{ACTOR}.entropy_coeff=0.001",
        f"{ROLLOUT}.max_model_len=null",
        "trainer.max_actor_ckpt_to_keep=null",
        "trainer.rollout_data_dir=null",
        "trainer.logger=console",
        "trainer.save_freq=0",
        "examples.dir=null",
        "health.truncated=null",
        "health.gradient_spike=7",
        "data.train_files=[a.parquet,b.parquet]",
        "+actor_rollout_ref.model.override_config.attention_dropout=0.0",
        f"+{ROLLOUT}.engine_kwargs.vllm.swap_space=4",
        "recipe.technique=mine",
    ],
)
def test_other_values_of_the_same_kind_pass(word):
    assert check_recipe(variant(word)) == []


def test_a_loss_of_ones_own_is_left_to_its_module():
    lib = "actor_rollout_ref.model.external_lib=[recipe.policy_loss,recipe.live_engine,recipe.agent_loop,mine]"
    assert check_recipe(variant(lib, f"{ACTOR}.policy_loss.loss_mode=mine")) == []


def test_known_names_are_those_that_verl_registers():
    source = (verl_package_dir() / "trainer/ppo/core_algos.py").read_text()
    assert {"dapo", *re.findall(r'^@register_policy_loss\("(\w+)"\)', source, re.MULTILINE)} == set(LOSS_MODES)
    enum = source.partition("class AdvantageEstimator")[2].partition("ADV_ESTIMATOR_REGISTRY")[0]
    assert set(re.findall(r'= "(\w+)"', enum)) == set(ADVANTAGES)


def test_what_verl_leaves_null_may_be_null():
    with initialize_config_dir(str(verl_config_dir()), version_base="1.3"):
        null = {key for key, value in flatten(hydra_compose("ppo_trainer")).items() if value is None}
    for name in NAMES:
        assert {key for key, value in flatten(variant(*words(name))).items() if value is not None} & null <= NULLABLE


@pytest.mark.parametrize("word", ["data.train_files=5", "data.val_files=null"])
def test_paths_of_the_wrong_kind_are_refused_before_they_are_read(word):
    key = word.partition("=")[0]
    with pytest.raises(ConfigError, match=f"{key}="):
        settle_paths(variant(word))


def test_a_value_in_place_of_files_of_a_section_is_one_line():
    with pytest.raises(ConfigError, match="these words cannot be composed"):
        compose(["cluster=cpu", "data=5"])


@pytest.mark.parametrize("words_", [["trainer.resume_from_path=5"], []])
def test_a_resume_without_a_path_is_named(words_, tmp_path, monkeypatch, capsys):
    arguments = ["--recipe-only", "cluster=cpu", f"run_dir={tmp_path}", "trainer.resume_mode=resume_path", *words_]
    monkeypatch.setattr(sys, "argv", ["preflight", *arguments])
    with pytest.raises(SystemExit):
        main()
    assert "must be a global_step_N folder with trainer.resume_mode=resume_path" in capsys.readouterr().err
