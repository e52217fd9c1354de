"""Start-up self-test: the configured reward manager must see the difference that the configuration promises."""

from typing import Any

from reward.settings import RewardSettings


def check_shaping(settings: RewardSettings, short: float, at_limit: float) -> None:
    """Compare the rewards of a short and an at-limit response, both without an answer.

    Raises:
        ValueError: shaping is on and both rewards are equal, or shaping is off and they differ.
    """
    if settings.shaping and settings.factor > 0 and short == at_limit:
        raise ValueError(
            f"overlong_buffer_cfg.enable=True, but a short and an at-limit response ({settings.max_resp_len} tokens) "
            f"both score {short}: the penalty is not applied. Check reward.reward_manager (source importlib, "
            "name DAPORewardManager, module.path pkg://reward.manager) and reward.reward_kwargs"
        )
    if not settings.shaping and short != at_limit:
        raise ValueError(
            f"overlong shaping is off, yet a short response scores {short} and an at-limit one {at_limit}; "
            "reward.reward_manager is not the manager that reward_kwargs was written for"
        )


def selftest(config: Any, tokenizer: Any) -> dict[str, float]:
    """Score a short and an at-limit response through the manager that ``config`` names, before training starts.

    Args:
        config: the whole run configuration.
        tokenizer: the policy's tokenizer.

    Returns:
        ``{"short": reward, "at_limit": reward}``, for the log.

    Raises:
        ValueError: a reward key is wrong, or shaping is on and both responses score the same.
    """
    from omegaconf import OmegaConf
    from verl.trainer.ppo.reward import load_reward_manager

    manager = load_reward_manager(config, tokenizer)
    kwargs: Any = config.reward.get("reward_kwargs", None)
    plain: Any = OmegaConf.to_container(kwargs, resolve=True) if kwargs else None
    settings = RewardSettings.from_kwargs(plain)
    limit = settings.max_resp_len or config.data.max_response_length
    token = tokenizer.encode("x", add_special_tokens=False)[:1]
    scores = [manager.loop.run_until_complete(_score(manager, token * length)) for length in (1, limit)]
    check_shaping(settings, *scores)
    return {"short": scores[0], "at_limit": scores[1]}


async def _score(manager: Any, ids: list[int]) -> float:
    """Reward of one response without an answer, through ``run_single`` as verl calls it."""
    import numpy as np
    import torch
    from verl import DataProto

    responses = torch.tensor([ids])
    batch = {
        "responses": responses,
        "prompts": torch.tensor([[0]]),
        "attention_mask": torch.ones(1, len(ids) + 1).long(),
    }
    non_tensor = {
        "reward_model": np.array([{"ground_truth": "34", "style": "rule"}], dtype=object),
        "data_source": np.array(["math_dapo"], dtype=object),
        "extra_info": np.array([{}], dtype=object),
    }
    result = await manager.run_single(DataProto.from_dict(tensors=batch, non_tensors=non_tensor))
    return float(result["reward_score"])
