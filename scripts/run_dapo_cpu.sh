#!/usr/bin/env bash
# The whole DAPO loop on a machine without a GPU: data, base evaluation, training, export, evaluation, summary, report.
#   bash scripts/run_dapo_cpu.sh [--dry-run] [key=value ...]      environment: see launch.sh; results: outputs/<run>/
set -euo pipefail
scripts=$(dirname "$0")

[[ " $*" == *" --"* ]] || bash "$scripts/setup.sh" cpu # a dry run starts nothing
unset PYTHON                                           # the one that made the environment
exec bash "$scripts/launch.sh" recipe.loop experiment=tiny technique=dapo cluster=cpu "$@"
