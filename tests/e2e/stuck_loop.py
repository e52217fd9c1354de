"""An agent loop whose first answer of a run never ends while its step lasts, and is delivered when nobody wants it."""

import asyncio
from pathlib import Path

from recipe.agent_loop import DAPOAgentLoop

_REQUESTS = 6


class StuckOnce(DAPOAgentLoop):
    """Keeps the engine busy for one prompt until the trace of step 1 is written."""

    async def run(self, sampling_params, **kwargs):
        run_dir = Path(self.config.run_dir)
        try:
            (run_dir / "stuck").open("x").write(kwargs["uid"])
        except FileExistsError:
            return await super().run(sampling_params, **kwargs)

        # Requests of different lengths end at different times: the engine always has some of them to abort.
        async def ask_on(length):
            aborted, endless = 0, {**sampling_params, "ignore_eos": True, "max_tokens": length}
            while True:
                answer = await super(StuckOnce, self).run(dict(endless), **kwargs)
                aborted += len(answer.response_ids) < length
                if (run_dir / "sampling" / "1.jsonl").exists():
                    return answer, aborted

        ended = await asyncio.gather(*(ask_on(self.response_length - i) for i in range(_REQUESTS)))
        (run_dir / "delivered").write_text(str(sum(aborted for _, aborted in ended)))
        return ended[0][0]
