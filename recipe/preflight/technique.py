"""What makes a recipe DAPO: sampling, filter, loss, lengths, the two overlong methods."""

from collections.abc import Iterator
from typing import Any

from omegaconf import DictConfig, OmegaConf

from recipe.acceptance import AcceptanceEstimate
from recipe.sampler_settings import SamplerSettings
from reward.settings import RewardSettings

_LOSS_MODES = ("token-mean", "token-sum", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm")


def rollout_sampling(config: DictConfig) -> Iterator[str]:
    """Training samples from the policy itself."""
    rollout = config.actor_rollout_ref.rollout
    for key, value in (("temperature", 1.0), ("top_p", 1.0), ("top_k", -1), ("do_sample", True)):
        if rollout[key] != value:
            yield (
                f"actor_rollout_ref.rollout.{key}={rollout[key]} biases the importance ratio: training needs {value}; "
                "evaluation settings belong under val_kwargs"
            )


def validation_sampling(config: DictConfig) -> Iterator[str]:
    """Several samples of a problem differ."""
    val = config.actor_rollout_ref.rollout.val_kwargs
    if val.n > 1 and (not val.do_sample or val.temperature == 0):
        yield (
            f"actor_rollout_ref.rollout.val_kwargs.n={val.n} with do_sample={val.do_sample}, temperature="
            f"{val.temperature} repeats one greedy answer; set do_sample=true and temperature=1.0, or n=1"
        )


def probabilities(config: DictConfig) -> Iterator[str]:
    """The difference of rollout and trainer probabilities is watched: a late collapse shows there first."""
    if not config.actor_rollout_ref.rollout.calculate_log_probs:
        yield (
            "actor_rollout_ref.rollout.calculate_log_probs=false hides how far rollout engine and trainer disagree; "
            "leave it true"
        )


def filter_metric(config: DictConfig) -> Iterator[str]:
    """Groups are filtered on accuracy, never on a reward that contains the length penalty."""
    group_filter = config.trainer.v1.sampler.sampler_kwargs.filter
    shaped = config.reward.reward_kwargs.overlong_buffer_cfg.enable
    if not group_filter.enable or group_filter.metric == "acc":
        return
    if shaped and not group_filter.force:
        yield (
            f"algorithm.filter_groups.metric={group_filter.metric} contains the overlong penalty, so groups without a "
            "right answer would train; use acc"
        )


def trainer_version(config: DictConfig) -> Iterator[str]:
    """The trainer is the one that our sampler plugs into."""
    if not config.trainer.use_v1:
        yield "trainer.use_v1=false: verl's old trainer ignores the group filter without a word; leave it true"
    elif config.trainer.v1.trainer_mode != "dapo":
        yield (
            f"trainer.v1.trainer_mode={config.trainer.v1.trainer_mode}: sampler state in checkpoints and safe resumes "
            "come with recipe.trainer only; use dapo"
        )


def unbounded_sampler(config: DictConfig) -> Iterator[str]:
    """Dynamic sampling has a sampler that gives up."""
    if config.algorithm.filter_groups.enable and config.trainer.v1.sampler.custom_sampler.path is None:
        yield (
            "trainer.v1.sampler.custom_sampler.path=null: verl's built-in sampler never gives up on data that is too "
            "hard or too easy; use pkg://recipe.dynamic_sampling"
        )


def sampler_settings(config: DictConfig) -> Iterator[str]:
    """The sampler accepts its keys."""
    kwargs: Any = OmegaConf.to_container(config.trainer.v1.sampler.sampler_kwargs, resolve=True)
    kwargs["filter"]["force"] = True  # the metric has a rule of its own
    try:
        SamplerSettings.from_kwargs(kwargs).controller(AcceptanceEstimate(), rows=1, now=0.0)
    except (ValueError, TypeError) as error:
        yield f"trainer.v1.sampler.sampler_kwargs: {error}"


def reward_settings(config: DictConfig) -> Iterator[str]:
    """The reward accepts its keys."""
    kwargs: Any = OmegaConf.to_container(config.reward.reward_kwargs, resolve=True)
    kwargs["overlong_buffer_cfg"]["enable"] = False  # its length has a rule of its own
    try:
        RewardSettings.from_kwargs(kwargs)
    except (ValueError, TypeError) as error:
        yield f"reward.reward_kwargs: {error}"


def overlong_punishment(config: DictConfig) -> Iterator[str]:
    """L_cache lies within L_max, the punishment is one, and L_max is the response limit."""
    response, kwargs = config.data.max_response_length, config.reward.reward_kwargs
    buffer = kwargs.overlong_buffer_cfg
    if not buffer.enable:
        return
    if not 0 < buffer.len < response:
        yield (
            f"reward.reward_kwargs.overlong_buffer_cfg.len={buffer.len} must lie between 0 and "
            f"data.max_response_length={response} (tokens); the paper has 4096 of 20480"
        )
    if not buffer.penalty_factor > 0:
        yield (
            f"reward.reward_kwargs.overlong_buffer_cfg.penalty_factor={buffer.penalty_factor} must be positive: it is "
            "the size of the largest punishment; the paper has 1.0"
        )
    if kwargs.max_resp_len != response:
        yield (
            f"reward.reward_kwargs.max_resp_len={kwargs.max_resp_len} differs from "
            f"data.max_response_length={response}: the punishment would start at the wrong length; write "
            "${data.max_response_length}"
        )


def overlong_methods(config: DictConfig) -> Iterator[str]:
    """Punishment and filtering are alternatives, and filtering has what it needs."""
    filtering = OmegaConf.select(config, "overlong_filtering.enable", default=False)
    if not filtering:
        return
    forced = OmegaConf.select(config, "overlong_filtering.force", default=False)
    if config.reward.reward_kwargs.overlong_buffer_cfg.enable and not forced:
        yield (
            "overlong_filtering.enable=true together with reward.reward_kwargs.overlong_buffer_cfg.enable=true: the "
            "paper has one or the other, and a masked sample's punishment would only shift its group's mean; switch "
            "one off, or set overlong_filtering.force=true"
        )
    loss_mode = config.actor_rollout_ref.actor.policy_loss.loss_mode
    if loss_mode != "dapo":
        yield (
            f"overlong_filtering.enable=true with actor_rollout_ref.actor.policy_loss.loss_mode={loss_mode}: only dapo "
            "takes masked samples out of every denominator; use it"
        )
    if config.actor_rollout_ref.rollout.agent.default_agent_loop == "single_turn_agent":
        yield (
            "overlong_filtering.enable=true with actor_rollout_ref.rollout.agent.default_agent_loop=single_turn_agent, "
            "which masks nothing; use dapo_single_turn"
        )


def window(config: DictConfig) -> Iterator[str]:
    """The rollout engine has room for prompt and response."""
    prompt, response = config.data.max_prompt_length, config.data.max_response_length
    length = config.actor_rollout_ref.rollout.get("max_model_len")
    if length is not None and length < prompt + response:
        yield (
            f"actor_rollout_ref.rollout.max_model_len={length} is less than max_prompt_length + max_response_length = "
            f"{prompt} + {response}: answers would be cut early and the overlong punishment never fire"
        )


def loss(config: DictConfig) -> Iterator[str]:
    """Loss aggregation and clip range are ones that exist."""
    actor = config.actor_rollout_ref.actor
    if actor.loss_agg_mode not in _LOSS_MODES:
        yield (
            f"actor_rollout_ref.actor.loss_agg_mode={actor.loss_agg_mode} is unknown: use token-mean (DAPO: every "
            f"token of an update weighs the same), or one of {', '.join(_LOSS_MODES[1:])}"
        )
    if not 0 < actor.clip_ratio_low < 1 or actor.clip_ratio_high < actor.clip_ratio_low:
        yield (
            f"actor_rollout_ref.actor.clip_ratio_low={actor.clip_ratio_low}, clip_ratio_high={actor.clip_ratio_high}: "
            "the ratio is clipped to [1 - low, 1 + high]; DAPO has 0.2 and 0.28, GRPO 0.2 and 0.2"
        )


def name_holds(config: DictConfig) -> Iterator[str]:
    """What is called dapo has DAPO's four ideas."""
    if config.recipe.technique != "dapo":
        return
    actor, off = config.actor_rollout_ref.actor, []
    if actor.clip_ratio_high <= actor.clip_ratio_low:
        off.append(f"clip-higher (actor.clip_ratio_high={actor.clip_ratio_high})")
    if not config.algorithm.filter_groups.enable:
        off.append("dynamic sampling (algorithm.filter_groups.enable=false)")
    if actor.loss_agg_mode != "token-mean":
        off.append(f"token-level loss (actor.loss_agg_mode={actor.loss_agg_mode})")
    if not config.reward.reward_kwargs.overlong_buffer_cfg.enable:
        off.append("soft overlong punishment (reward.reward_kwargs.overlong_buffer_cfg.enable=false)")
    if off:
        yield (
            f"recipe.technique=dapo, but it lacks {', '.join(off)}; use the technique that is meant (such as "
            "wo_dynamic_sampling), or give yours a name: recipe.technique=NAME"
        )


def kl_and_reward_model(config: DictConfig) -> Iterator[str]:
    """Pairs that crash or mean nothing together."""
    filtered = config.algorithm.filter_groups.enable
    if filtered and config.algorithm.use_kl_in_reward:
        yield (
            "algorithm.use_kl_in_reward=true with algorithm.filter_groups.enable=true: DAPO has no KL term, and groups "
            "are judged before it is subtracted; set use_kl_in_reward=false"
        )
    if filtered and config.reward.reward_model.enable:
        yield (
            "reward.reward_model.enable=true with algorithm.filter_groups.enable=true: verl cannot filter on a reward "
            "model that shares the GPUs; switch one off"
        )
