#!/usr/bin/env bash
# The whole DAPO loop on a machine without a GPU: data, base evaluation, training, export, evaluation, summary, report.
#   bash scripts/run_dapo_cpu.sh [key=value ...]      Hydra overrides of the training; results under outputs/<run>/
set -euo pipefail
cd "$(dirname "$0")/.."

bash scripts/setup.sh cpu
unset PYTHON # the one that made the environment; launch.sh takes the environment's
exec bash scripts/launch.sh recipe.loop experiment=tiny technique=dapo cluster=cpu "$@"
