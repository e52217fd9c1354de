"""JSONL files of a run that may still be written, or was killed."""

import json
from pathlib import Path
from typing import Any


def read_jsonl(path: Path, skip_damaged: bool = False) -> list[dict[str, Any]]:
    r"""Objects of a JSONL file, without a torn last line; nothing when there is no file.

    Lines end at `\n` only: model text holds U+2028 and U+0085 as they are, where `str.splitlines` would cut.

    Raises:
        ValueError: a line before the last is not JSON, unless `skip_damaged` leaves such lines out.
    """
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        lines = list(file)
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            if number < len(lines) and not skip_damaged:
                raise ValueError(f"{path}:{number} is not JSON ({error}); mend or delete that line") from error
    return [row for row in rows if isinstance(row, dict)]
