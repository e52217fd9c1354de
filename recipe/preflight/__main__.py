"""Prints the plan of a recipe and everything that is wrong with it, in seconds and without a GPU.

    python -m recipe.preflight experiment=qwen2.5_32b technique=dapo cluster=multi_node [key=value ...]
    python -m recipe.preflight --recipe-only ...     # for another machine: files, disks, devices are not looked at
    python -m recipe.preflight --loop ...            # for recipe.loop, which makes data and base model itself

Exit code 0: nothing stops the run. 2: something does; every problem is on stderr.
"""

import sys

from recipe.compose import compose, known_keys
from recipe.errors import EXIT_CODE, user_errors
from recipe.main_dapo import settle_paths
from recipe.preflight import preflight

_RECIPE_ONLY, _LOOP, _HELP = "--recipe-only", "--loop", ("--help", "-h")


def main() -> None:
    """Command line."""
    words = sys.argv[1:]
    if any(word in _HELP for word in words):
        print(__doc__.strip())
        return
    with user_errors(known_keys):
        config = compose([word for word in words if word not in (_RECIPE_ONLY, _LOOP)])
        settle_paths(config)
        result = preflight(config, recipe_only=_RECIPE_ONLY in words, in_loop=_LOOP in words)
    for line in result.plan:
        print(line)
    for note in result.notes:
        print(f"note        {note}")
    if result.problems:
        print(f"{len(result.problems)} problem(s):", *result.problems, sep="\n  ", file=sys.stderr)
        sys.exit(EXIT_CODE)
    print("preflight   nothing stops this run")


if __name__ == "__main__":
    main()
