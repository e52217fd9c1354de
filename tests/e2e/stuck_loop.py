"""An agent loop whose first answer of a run never ends while its step lasts, and is delivered when nobody wants it."""

import asyncio
from pathlib import Path

from recipe.agent_loop import DAPOAgentLoop


class StuckOnce(DAPOAgentLoop):
    """Keeps the engine busy for one prompt until the trace of step 1 is written."""

    async def run(self, sampling_params, **kwargs):
        run_dir = Path(self.config.run_dir)
        try:
            (run_dir / "stuck").open("x").write(kwargs["uid"])
        except FileExistsError:
            return await super().run(sampling_params, **kwargs)
        aborted, endless = 0, {**sampling_params, "ignore_eos": True}
        while True:
            answers = await asyncio.gather(*(super(StuckOnce, self).run(dict(endless), **kwargs) for _ in range(4)))
            aborted += sum(len(answer.response_ids) < self.response_length for answer in answers)
            if (run_dir / "sampling" / "1.jsonl").exists():
                (run_dir / "delivered").write_text(str(aborted))
                return answers[0]
