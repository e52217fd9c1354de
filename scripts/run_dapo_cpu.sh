#!/usr/bin/env bash
# The whole DAPO loop on a machine without a GPU: data, base evaluation, training, export, evaluation, summary.
#   bash scripts/run_dapo_cpu.sh [key=value ...]      Hydra overrides of the training; results under outputs/<run>/
set -euo pipefail
cd "$(dirname "$0")/.."

bash scripts/setup.sh cpu
export PYTHON="${DAPO_VENV:-.venv}/bin/python"
exec bash scripts/launch.sh recipe.loop experiment=tiny technique=dapo cluster=cpu "$@"
