"""Writes one page on one or more runs.

    python -m eval.report outputs/RUN [outputs/RUN ...] --out DIR

DIR gets `index.html`, which needs no network and nothing beside it, and a PNG of each figure. Runs that still go on, or
were killed, are reported as far as they came.
"""

import argparse
from pathlib import Path

from eval.report.page import write_report
from eval.report.read import read_run


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m eval.report", description="Write one HTML page on one or more runs."
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run's folder, such as outputs/NAME")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for index.html and the PNGs")
    args = parser.parse_args()
    try:
        page = write_report([read_run(folder) for folder in args.runs], args.out)
    except (ValueError, OSError) as error:
        parser.exit(2, f"error: {error}\n")
    print(page)


if __name__ == "__main__":
    main()
