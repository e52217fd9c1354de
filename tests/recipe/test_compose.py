from omegaconf import OmegaConf

from recipe.compose import CONFIG_DIR, compose

DAPO_KEYS = {
    "actor_rollout_ref.actor.clip_ratio_high",
    "actor_rollout_ref.actor.loss_agg_mode",
    "algorithm.filter_groups.enable",
    "reward.reward_kwargs.overlong_buffer_cfg.enable",
}
# What follows from those four, and from the recipe's name.
DERIVED = {
    "recipe.technique",
    "critic.loss_agg_mode",  # no critic is trained; verl interpolates the actor's
    "trainer.v1.sampler.sampler_kwargs.filter.enable",
    "trainer.v1.sampler.sampler_kwargs.reward_is_shaped",
}


def flat(node, prefix=""):
    if isinstance(node, dict):
        return {k: v for key, value in node.items() for k, v in flat(value, f"{prefix}{key}.").items()}
    return {prefix[:-1]: node}


def resolved(*overrides):
    return flat(OmegaConf.to_container(compose(list(overrides)), resolve=True))


def test_techniques_differ_in_the_dapo_keys_only():
    dapo, grpo = (resolved(f"technique={t}", "run_dir=/r", "trainer.experiment_name=e") for t in ("dapo", "naive_grpo"))
    different = {key for key in dapo if dapo[key] != grpo.get(key)} | set(grpo) - set(dapo)
    assert different == DAPO_KEYS | DERIVED


def test_dapo_has_the_published_values():
    config = resolved("technique=dapo")
    assert config["actor_rollout_ref.actor.clip_ratio_low"] == 0.2
    assert config["actor_rollout_ref.actor.clip_ratio_high"] == 0.28
    assert config["actor_rollout_ref.actor.clip_ratio_c"] == 10.0
    assert config["actor_rollout_ref.actor.loss_agg_mode"] == "token-mean"
    assert config["algorithm.filter_groups.metric"] == "acc"
    assert not config["algorithm.use_kl_in_reward"]
    assert not config["actor_rollout_ref.actor.use_kl_loss"]


def test_overlong_limit_follows_the_response_limit():
    assert resolved("data.max_response_length=48")["reward.reward_kwargs.max_resp_len"] == 48


def test_every_group_names_itself():
    for group in ("experiment", "technique", "cluster"):
        for path in (CONFIG_DIR / group).glob("*.yaml"):
            assert compose([f"{group}={path.stem}"]).recipe[group] == path.stem


def test_command_line_wins_over_every_file():
    assert compose(["trainer.total_training_steps=7"]).trainer.total_training_steps == 7
