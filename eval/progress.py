"""One line while an evaluation runs: done / total, time left, tokens/s, running avg@k, failures."""

import sys
import time
from collections.abc import Iterable

from tqdm import tqdm

from eval.records import Line

_LOG_INTERVAL_S = 10.0  # between lines in a log; a terminal is refreshed ten times a second


class Progress:
    """The line, on stderr. `total` counts all samples; `done` are those that were there before."""

    def __init__(self, total: int, n: int, done: Iterable[Line] = ()) -> None:
        self._n, self._tokens, self._repeated, self._failed = n, 0, 0, 0
        self._counts: dict[int, tuple[int, int]] = {}  # right and all samples of a problem
        self._sum_of_means = 0.0
        for line in done:
            self._count(line)
        self._started = time.monotonic()
        interval = 0.1 if sys.stderr.isatty() else _LOG_INTERVAL_S
        initial = sum(count for _, count in self._counts.values())
        self._bar = tqdm(total=total, initial=initial, unit="sample", mininterval=interval, smoothing=0.1)

    def answered(self, line: Line) -> None:
        """Count one more sample."""
        self._count(line)
        self._tokens += line.get("completion_tokens") or 0
        self._repeated += line["attempts"] - 1
        self._show(1)

    def failed(self) -> None:
        """Count a sample that is given up."""
        self._failed += 1
        self._show(0)

    def close(self) -> None:
        """Leave the last state on the screen."""
        self._bar.close()

    def text(self) -> str:
        """What stands behind the bar; avg is over the problems and samples that are there so far."""
        average = f"{self._sum_of_means / len(self._counts):.3f}" if self._counts else "-"
        rate = self._tokens / max(time.monotonic() - self._started, 1e-9)
        return f"avg@{self._n} {average}, {rate:.0f} tokens/s, {self._repeated} repeated, {self._failed} failed"

    def _count(self, line: Line) -> None:
        right, count = self._counts.get(line["problem"], (0, 0))
        self._counts[line["problem"]] = new = (right + line["correct"], count + 1)
        self._sum_of_means += new[0] / new[1] - (right / count if count else 0.0)

    def _show(self, step: int) -> None:
        self._bar.set_postfix_str(self.text(), refresh=False)
        self._bar.update(step)
