"""One line while an evaluation runs: done / total, time left, tokens/s, running avg@k, failures."""

import sys
import time
from collections import defaultdict
from collections.abc import Iterable

from tqdm import tqdm

from eval.records import Line

_LOG_INTERVAL_S = 10.0  # between lines in a log; a terminal is refreshed ten times a second


class Progress:
    """The line. `total` counts all samples, `done` those that were there before."""

    def __init__(self, total: int, n: int, done: Iterable[Line] = ()) -> None:
        self._n, self._tokens, self._failed = n, 0, 0
        self._right: dict[int, list[bool]] = defaultdict(list)
        for line in done:
            self._right[line["problem"]].append(line["correct"])
        self._started = time.monotonic()
        interval = 0.1 if sys.stderr.isatty() else _LOG_INTERVAL_S
        initial = sum(map(len, self._right.values()))
        self._bar = tqdm(total=total, initial=initial, unit="sample", mininterval=interval, smoothing=0.1)

    def answered(self, line: Line) -> None:
        """Count one more sample."""
        self._right[line["problem"]].append(line["correct"])
        self._tokens += line.get("completion_tokens") or 0
        self._show(1)

    def failed(self) -> None:
        """Count a sample that is given up."""
        self._failed += 1
        self._show(0)

    def close(self) -> None:
        """Leave the last state on the screen."""
        self._bar.close()

    def text(self) -> str:
        """What stands behind the bar."""
        means = [sum(right) / len(right) for right in self._right.values()]
        accuracy = f"{sum(means) / len(means):.3f}" if means else "-"
        rate = self._tokens / max(time.monotonic() - self._started, 1e-9)
        return f"avg@{self._n} {accuracy}, {rate:.0f} tokens/s, {self._failed} failed"

    def _show(self, step: int) -> None:
        self._bar.set_postfix_str(self.text(), refresh=False)
        self._bar.update(step)
