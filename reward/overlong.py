"""Soft overlong punishment (DAPO, arXiv 2503.14476, equation 13). Lengths are tokens, never characters or turns."""

from collections.abc import Container, Sequence


def check_overlong(l_max: int, l_cache: int, factor: float = 1.0) -> None:
    """Refuse a punishment interval that would punish everything or nothing.

    Raises:
        ValueError: unless ``0 < l_cache < l_max`` and ``factor >= 0``.
    """
    if (
        isinstance(l_max, bool)
        or not isinstance(l_max, int)
        or isinstance(l_cache, bool)
        or not isinstance(l_cache, int)
    ):
        raise ValueError(
            f"max_resp_len={l_max!r} and overlong_buffer_cfg.len={l_cache!r} must be whole numbers of tokens; "
            "set max_resp_len to ${data.max_response_length}"
        )
    if not 0 < l_cache < l_max:
        raise ValueError(
            f"overlong_buffer_cfg.len={l_cache} must satisfy 0 < len < max_resp_len={l_max}; "
            "shorten the buffer or set overlong_buffer_cfg.enable=False"
        )
    if not 0 <= factor < float("inf"):
        raise ValueError(
            f"overlong_buffer_cfg.penalty_factor={factor} must be a finite number >= 0 (0 punishes nothing)"
        )


def is_truncated(ids: Sequence[int], limit: int, ends: Container[int]) -> bool:
    """Whether a response was cut at the length limit: at least ``limit`` tokens, and the last one ends nothing.

    verl's rollout maps both finish reasons, ``stop`` and ``length``, to "completed", so it is read off the response.

    Args:
        ids: token ids of the response, without padding.
        limit: longest response in tokens.
        ends: ids of the tokens that may end a response (eos, end of turn).
    """
    return len(ids) >= limit and (not ids or ids[-1] not in ends)


def soft_overlong_punishment(length: int, l_max: int, l_cache: int, factor: float = 1.0) -> float:
    """Length penalty of one response, added to its correctness reward (equation 13).

    Three branches: 0 up to ``l_max - l_cache`` tokens, then a straight line down to ``-factor`` at ``l_max``, then
    ``-factor`` (verl 0.9.1 goes on falling beyond ``l_max``; the paper does not).

    Args:
        length: tokens of the response.
        l_max: longest response in tokens (``data.max_response_length``).
        l_cache: length in tokens of the interval in which the penalty grows.
        factor: size of the largest penalty; 1.0 in the paper.

    Returns:
        A penalty in ``[-factor, 0]``.

    Raises:
        ValueError: unless ``0 < l_cache < l_max`` and ``factor >= 0``.
    """
    check_overlong(l_max, l_cache, factor)
    expected = l_max - l_cache
    if length <= expected:
        return 0.0
    if length <= l_max:
        return (expected - length) / l_cache * factor
    return -float(factor)
