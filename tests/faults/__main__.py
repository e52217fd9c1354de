"""Faults on the real stack: `scripts/test.sh faults`, or `python -m tests.faults`.

    [--count N] [--seed S] [--kinds A,B]   a campaign: one run of the tiny recipe is killed, filled up, truncated and
                                           corrupted N times. After each fault nothing may be left running, the last
                                           line must say what happened, and the same command must go on from the last
                                           complete checkpoint. The campaign itself may be ended at any moment: the same
                                           command goes on from FOLDER/faults.json
        [--minutes M]                      begin no fault after M minutes; status 3 when some are left
        [--again]                          do the faults that were lost once more
    --long [STEPS]                         does memory, files or shared memory grow, and is anything left behind?
    --determinism                          is the first step the same twice?
    --secrets                              do planted keys turn up in anything that a whole loop writes?

Ends with one JSON line, a campaign with a table before it; status 1 when something was lost or found. Takes minutes, a
campaign about two a fault on two cores, the long run a few seconds a step.
"""

import argparse
import json
import signal
import sys
from pathlib import Path
from typing import Any

from tests.faults import determinism, long_run, planted_secrets, verdict
from tests.faults.campaign import Campaign, Stopped
from tests.faults.ledger import Ledger, OtherCampaign, only_one
from tests.faults.plan import KINDS, plan


def parse(words: list[str] | None = None) -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=72, help="faults (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of their order and moments")
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=KINDS, help=f"some of {','.join(KINDS)}")
    parser.add_argument("--minutes", type=float, help="after which no further fault is begun")
    parser.add_argument("--again", action="store_true", help="do the faults that were lost once more")
    parser.add_argument("--folder", type=Path, default=Path("outputs/faults"), help="of runs and results")
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--long", type=int, nargs="?", const=500, metavar="STEPS", help="steps (default: %(const)s)")
    other.add_argument("--determinism", action="store_true")
    other.add_argument("--secrets", action="store_true")
    return parser.parse_args(words)


def campaign(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run a campaign, or what is left of it, print its table, and return its summary."""
    faults = plan(arguments.count, arguments.seed, arguments.kinds)
    described = {"count": arguments.count, "seed": arguments.seed, "kinds": ",".join(arguments.kinds)}
    with only_one(folder):
        ledger = Ledger(folder / "faults.json", described | {"faults": [str(fault) for fault in faults]})
        if arguments.again:
            ledger.forget_losses()
        result = Campaign(folder, faults, ledger).run(arguments.minutes)
    print(verdict.table(result))
    return result


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Do what was asked for and return what was found."""
    folder = arguments.folder.resolve()
    if arguments.long:
        return long_run.run(folder, arguments.long)
    if arguments.determinism:
        return determinism.run(folder)
    if arguments.secrets:
        return planted_secrets.run(folder)
    return campaign(folder, arguments)


def main() -> None:
    """Command line."""
    arguments = parse()
    for number in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C: what was started is ended
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, signal.default_int_handler)
    try:
        result = measure(arguments)
    except KeyboardInterrupt:
        other = arguments.long or arguments.determinism or arguments.secrets
        sys.exit("interrupted; " + ("the same command begins anew" if other else "the same command goes on"))
    except (OtherCampaign, Stopped) as error:
        sys.exit(f"error: {error}")
    print(json.dumps(result))
    sys.exit(1 if result.get("problems") or result.get("losses") else 3 if result.get("left") else 0)


if __name__ == "__main__":
    main()
