"""verl's single-turn agent loop that knows a truncated answer and, under overlong filtering, takes it out of the loss.

Overlong filtering (DAPO, arXiv 2503.14476, section 3.4) is the alternative to the soft overlong punishment: a truncated
answer is neither right nor wrong, so its tokens leave the loss and its denominator. The response mask is zeroed here
because verl copies it right after, in `agent_loop_tq.py`, to the `loss_mask` that the engine counts tokens with;
`recipe.policy_loss` sees to the denominators that count sequences.

A masked sample still counts in the mean and the standard deviation of its group: verl takes them from the rewards and
applies the mask afterwards, so the others' advantages are what they would be without the filtering.
"""

from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, register
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop

from recipe.sampling_metrics import LOSS_MASKED
from reward.overlong import is_truncated

NAME = "dapo_single_turn"


@register(NAME)
class DAPOAgentLoop(SingleTurnAgentLoop):
    """Adds `finish_reason` (`length` or `stop`, read by the reward) and `loss_masked` to the output's extra fields."""

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        """As verl's, then `mark`."""
        return self.mark(await super().run(sampling_params, **kwargs))

    def mark(self, output: AgentLoopOutput) -> AgentLoopOutput:
        """Note truncation; zero the response mask where `overlong_filtering.enable` and the answer is truncated."""
        truncated = is_truncated(output.response_ids, self.response_length, self.tokenizer.all_special_ids)
        masked = truncated and self.config.overlong_filtering.enable
        if masked:
            output.response_mask = [0] * len(output.response_mask)
        output.extra_fields["finish_reason"] = "length" if truncated else "stop"
        output.extra_fields[LOSS_MASKED] = float(masked)
        return output
