"""What counts as a clear end, and the table of a campaign. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import Any

_GOES_ON = "same command"


def clear(output: str) -> bool:
    """Whether the last line of a command that did not come to its end says how to go on."""
    return _GOES_ON in last_line(output)


def refuses(output: str, name: str) -> bool:
    """Whether a command that refused to start says so in a line of its own, and names the file."""
    lines = [line.strip() for line in output.splitlines()]
    return any(line.startswith("error:") for line in lines) and any(name in line for line in lines)


def last_line(output: str) -> str:
    """The last line that is not empty."""
    return next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")


def summary(judged: Sequence[dict[str, Any]], lost_before: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Faults, losses (records with problems) and median seconds to recover, by kind and over all.

    Those of `lost_before` were lost and done again: they count as faults and as losses all the same.
    `with_carried_groups` counts the faults at which groups were left over for the start after them: something to lose.
    """
    records = [*judged, *lost_before]
    by_kind: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        by_kind[record["kind"]].append(record)
    return {
        "faults": len(records),
        "losses": sum(bool(r["problems"]) for r in records),
        "lost_before": len(lost_before),
        "with_carried_groups": sum(bool(r.get("carried")) for r in records),
        "kinds": {
            kind: {
                "count": len(found),
                "losses": sum(bool(r["problems"]) for r in found),
                "median_s_to_recover": _median([r["seconds_to_recover"] for r in found]),
            }
            for kind, found in sorted(by_kind.items())
        },
    }


def _median(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return round(median(known), 1) if known else None


def table(result: dict[str, Any]) -> str:
    """The summary as a Markdown table."""
    rows = ["| fault | count | losses | median seconds to recover |", "|---|---|---|---|"]
    for kind, found in result["kinds"].items():
        rows.append(f"| {kind} | {found['count']} | {found['losses']} | {found['median_s_to_recover']} |")
    rows.append(f"| all | {result['faults']} | {result['losses']} | |")
    return "\n".join(rows)
