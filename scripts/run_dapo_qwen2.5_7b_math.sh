#!/usr/bin/env bash
# Qwen2.5-Math-7B without dynamic sampling, verl's 7B variant of the published run: 8 nodes x 8 GPUs.
#   bash scripts/run_dapo_qwen2.5_7b_math.sh [--dry-run] [key=value ...]      environment: see launch.sh
set -euo pipefail
export NNODES=${NNODES:-8}
exec bash "$(dirname "$0")/launch.sh" recipe.main_dapo \
    experiment=qwen2.5_7b_math technique=wo_dynamic_sampling cluster=multi_node "$@"
