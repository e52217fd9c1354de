"""Faults on the real stack: `scripts/test.sh faults`, or `python -m tests.faults`.

    [--count N] [--seed S] [--kinds A,B]   a campaign: one run of the tiny recipe is killed, filled up, truncated and
                                           corrupted N times. After each fault nothing may be left running, the last
                                           line must say what happened, and the same command must go on from the last
                                           complete checkpoint. Goes on where it was interrupted (FOLDER/faults.jsonl)
    --long [STEPS]                         does memory, files or shared memory grow, and is anything left behind?
    --determinism                          is the first step the same twice?
    --secrets                              do planted keys turn up in anything that a run writes?

Ends with one JSON line, a campaign with a table before it; status 1 when something was lost or found. Takes minutes, a
campaign about one a fault on two cores, the long run a few seconds a step.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tests.faults import determinism, long_run, planted_secrets, verdict
from tests.faults.campaign import Campaign
from tests.faults.plan import KINDS, plan


def parse(words: list[str] | None = None) -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=66, help="faults (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of their order and moments")
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=KINDS, help=f"some of {','.join(KINDS)}")
    parser.add_argument("--folder", type=Path, default=Path("outputs/faults"), help="of runs and results")
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--long", type=int, nargs="?", const=500, metavar="STEPS", help="steps (default: %(const)s)")
    other.add_argument("--determinism", action="store_true")
    other.add_argument("--secrets", action="store_true")
    return parser.parse_args(words)


def campaign(folder: Path, faults: list) -> dict[str, Any]:
    """Run a campaign, print its table, and return its summary."""
    chain = Campaign(folder)
    result = chain.run(faults)
    chain.close()
    print(verdict.table(result))
    return result


def main() -> None:
    """Run what was asked for."""
    arguments = parse()
    folder = arguments.folder.resolve()
    if arguments.long:
        result = long_run.run(folder, arguments.long)
    elif arguments.determinism:
        result = determinism.run(folder)
    elif arguments.secrets:
        result = planted_secrets.run(folder)
    else:
        result = campaign(folder, plan(arguments.count, arguments.seed, arguments.kinds))
    print(json.dumps(result))
    sys.exit(1 if result.get("problems") or result.get("losses") else 0)


if __name__ == "__main__":
    main()
