"""Settings that overlong filtering refuses. Pure; `recipe.agent_loop` masks, `recipe.policy_loss` divides."""

from collections.abc import Iterator

from omegaconf import DictConfig

LOSS_MODE, PLAIN_AGENT_LOOP = "dapo", "single_turn_agent"


def check_overlong_filtering(config: DictConfig) -> Iterator[str]:
    """Problems of `overlong_filtering`, as sentences that name key, value and remedy; none while it is off."""
    filtering, rollout = config.overlong_filtering, config.actor_rollout_ref.rollout
    if not filtering.enable:
        return
    if config.reward.reward_kwargs.overlong_buffer_cfg.enable and not filtering.force:
        yield (
            "overlong_filtering.enable=true together with reward.reward_kwargs.overlong_buffer_cfg.enable=true: the "
            "paper has one or the other, and the punishment of a masked sample would only shift its group's mean; "
            "switch one off, or set overlong_filtering.force=true"
        )
    loss_mode = config.actor_rollout_ref.actor.policy_loss.loss_mode
    if loss_mode != LOSS_MODE:
        yield (
            f"overlong_filtering.enable=true with actor_rollout_ref.actor.policy_loss.loss_mode={loss_mode}: only "
            f"{LOSS_MODE} takes masked samples out of every denominator; use it"
        )
    if rollout.agent.default_agent_loop == PLAIN_AGENT_LOOP:
        yield (
            f"overlong_filtering.enable=true with actor_rollout_ref.rollout.agent.default_agent_loop={PLAIN_AGENT_LOOP}"
            ", which masks nothing; use dapo_single_turn"
        )
