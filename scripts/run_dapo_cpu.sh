#!/usr/bin/env bash
# The whole DAPO loop on a machine without a GPU: data, base evaluation, training, export, evaluation, summary.
#   bash scripts/run_dapo_cpu.sh [key=value ...]      Hydra overrides of the training; results under outputs/<run>/
set -euo pipefail
cd "$(dirname "$0")/.."

unset PYTHONDONTWRITEBYTECODE # a dozen processes import the same modules: let the first one compile them
bash scripts/setup.sh cpu
exec "${DAPO_VENV:-.venv}/bin/python" -m recipe.loop experiment=tiny technique=dapo cluster=cpu "$@"
