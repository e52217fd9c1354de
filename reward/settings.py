"""The reward's own keys of the run configuration (``reward.reward_kwargs``), checked once, before any scoring."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reward.overlong import check_overlong, soft_overlong_punishment
from reward.verdict import ANSWER_FORMATS, MODES, TRUNCATED_REWARDS, check_choice

# Correctness reward (wrong, right). The paper: -1/+1. With 0/1 the same overlong penalty weighs twice as much against
# the gap between right and wrong; without a penalty group-normalised advantages are the same for both.
REWARD_SCALES = {"minus_one_one": (-1.0, 1.0), "zero_one": (0.0, 1.0)}
_BUFFER_KEYS = {"enable", "len", "penalty_factor", "log"}


@dataclass(frozen=True)
class RewardSettings:
    """Checked ``reward.reward_kwargs``.

    Attributes:
        mode: rules of grading (``strict``, ``verl_compat``, ``tutorial``).
        answer_format: which of ``Answer:`` line and ``\\boxed{}`` is read first; the prompt asks for the same.
        max_resp_len: longest response in tokens; tie it to ``${data.max_response_length}``.
        shaping: whether the soft overlong punishment is added.
        l_cache: tokens over which the punishment grows (``overlong_buffer_cfg.len``).
        factor: its largest size (``overlong_buffer_cfg.penalty_factor``).
        reward_scale: a key of ``REWARD_SCALES``.
        truncated_reward: ``score`` grades a truncated response by what it says, ``wrong`` never accepts it.
        thought_open: the prompt itself opens ``<think>``, so text without ``</think>`` is an unfinished thought.
    """

    mode: str = "strict"
    answer_format: str = "answer"
    max_resp_len: int | None = None
    shaping: bool = False
    l_cache: int = 0
    factor: float = 1.0
    reward_scale: str = "minus_one_one"
    truncated_reward: str = "score"
    thought_open: bool = False

    def __post_init__(self) -> None:
        """Check every value; see ``from_kwargs`` for the errors."""
        check_choice("reward_kwargs.mode", self.mode, MODES)
        check_choice("reward_kwargs.answer_format", self.answer_format, ANSWER_FORMATS)
        check_choice("reward_kwargs.reward_scale", self.reward_scale, tuple(REWARD_SCALES))
        check_choice("reward_kwargs.truncated_reward", self.truncated_reward, TRUNCATED_REWARDS)
        if self.shaping:
            if self.max_resp_len is None:
                raise ValueError(
                    "reward_kwargs.max_resp_len is missing while overlong_buffer_cfg.enable=True; "
                    "set it to ${data.max_response_length}"
                )
            check_overlong(self.max_resp_len, self.l_cache, self.factor)

    @classmethod
    def from_kwargs(cls, kwargs: Mapping[str, Any] | None) -> "RewardSettings":
        """Read ``reward.reward_kwargs`` (a mapping, or None for the defaults).

        Raises:
            ValueError: a key is unknown, or a value is not allowed; the message says what to write.
        """
        values = dict(kwargs or {})
        buffer = dict(values.pop("overlong_buffer_cfg", None) or {})
        unknown = sorted(set(buffer) - _BUFFER_KEYS)
        if unknown:
            raise ValueError(f"overlong_buffer_cfg has unknown keys {unknown}; known: {sorted(_BUFFER_KEYS)}")
        known = set(cls.__dataclass_fields__) - {"shaping", "l_cache", "factor"}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ValueError(
                f"reward.reward_kwargs has unknown keys {unknown}; known: {sorted(known)}, overlong_buffer_cfg"
            )
        if not buffer.get("log", True):
            warnings.warn("overlong_buffer_cfg.log=False is ignored: overlong_reward is always logged", stacklevel=2)
        if buffer.get("enable", False):
            if "len" not in buffer:
                raise ValueError(
                    "overlong_buffer_cfg.len is missing while enable=True; the paper uses 4096 of 20480 tokens"
                )
            values.update(shaping=True, l_cache=buffer["len"], factor=float(buffer.get("penalty_factor", 1.0)))
        return cls(**values)

    def correctness_reward(self, correct: bool) -> float:
        """Reward of a right or a wrong answer before any length penalty."""
        return REWARD_SCALES[self.reward_scale][int(correct)]

    def overlong_reward(self, length: int) -> float:
        """Length penalty in ``[-factor, 0]`` for ``length`` tokens; 0 when shaping is off."""
        if not self.shaping or self.max_resp_len is None:
            return 0.0
        return soft_overlong_punishment(length, self.max_resp_len, self.l_cache, self.factor)
