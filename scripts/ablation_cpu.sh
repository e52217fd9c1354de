#!/usr/bin/env bash
# The paper's ladder of six techniques on a small model without a GPU, three seeds each: a table beside the paper's column,
# and the report of all runs, under outputs/ablation/. Takes hours; the same command goes on where it stopped.
#   bash scripts/ablation_cpu.sh [--seeds 1 2 3] [--rungs TECHNIQUE ...] [--out DIR] [-- key=value ...]
# DIR is relative to the repository.
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=scripts/lib.sh
. scripts/lib.sh

bash scripts/setup.sh cpu
unset PYTHON # the one that made the environment
find_python
unset PYTHONDONTWRITEBYTECODE # without compiled files each process starts 10 s later
exec "$PYTHON" -m recipe.ablation experiment=ablation_cpu cluster=cpu "$@"
