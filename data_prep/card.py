"""The card beside each parquet: what it was made from, how, and what was left out on the way.

`NAME.parquet` has `NAME.card.json`. The card holds no time and no folder names, so the same inputs and options give
the same card. `read_card` is what a trainer's start needs: the card of a data file, checked against the file.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_prep.errors import DataError

FORMAT = 1


@dataclass(frozen=True)
class Card:
    """A card as it was read. `sha256` and `rows` describe the data file, `card_sha256` the card itself."""

    path: Path
    sha256: str
    rows: int
    card_sha256: str
    content: dict[str, Any]

    @property
    def template(self) -> str:
        """The prompt template of the rows: answer, boxed or none; the reward must read the same format."""
        return self.content["options"]["template"]


def card_path(data_file: Path | str) -> Path:
    """Return where the card of a parquet file is."""
    return Path(data_file).with_suffix(".card.json")


def read_card(data_file: Path | str) -> Card | None:
    """Return the card of a data file, None when it has none.

    Raises:
        DataError: the data file is missing, the card is not a card, or it describes another file than this one.
    """
    data_file = Path(data_file)
    path = card_path(data_file)
    if not data_file.is_file():
        raise DataError("does not exist", file=data_file)
    if not path.is_file():
        return None
    raw = path.read_bytes()
    content = _parse(path, raw)
    found = sha256_of(data_file)
    if content["sha256"] != found:
        raise DataError(
            f"describes a file with SHA-256 {content['sha256']}, {data_file.name} has {found}",
            file=path,
            remedy="Prepare the data again, or remove the card of a file that was made otherwise",
        )
    return Card(path, found, content["rows"], hashlib.sha256(raw).hexdigest(), content)


def source_of(data_file: Path) -> str | None:
    """Return the name of the source of a data file by its card, without a look at the file; None where no card says."""
    try:
        return json.loads(card_path(data_file).read_bytes())["source"]["name"]
    except (OSError, ValueError, KeyError, TypeError):  # no card, or nobody knows whose
        return None


def _parse(path: Path, raw: bytes) -> dict[str, Any]:
    try:
        content = json.loads(raw)
    except ValueError as error:
        raise DataError(f"is not JSON ({error})", file=path) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DataError(f"is no data card of format {FORMAT}", file=path)
    missing = [key for key in ("sha256", "rows", "options") if key not in content]
    if missing:
        raise DataError(f"lacks {', '.join(missing)}", file=path)
    return content


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    total = hashlib.sha256()
    with path.open("rb") as handle:
        while block := handle.read(1 << 20):
            total.update(block)
    return total.hexdigest()


def rollout_steps(rows: int, rows_in: int, batch: int) -> dict[str, int]:
    """Return how many rollout steps of `batch` prompts one pass takes, without dynamic sampling.

    verl computes rows // batch; the same number for the rows before de-duplication shows what a setting of
    `total_epochs` that was meant for the repeated file would have become.
    """
    return {"train_batch_size": batch, "one_pass": rows // batch, "one_pass_of_rows_in": rows_in // batch}


def dump(content: dict[str, Any]) -> str:
    """Return the text of a card."""
    return json.dumps({"format": FORMAT, **content}, indent=1, ensure_ascii=False) + "\n"
