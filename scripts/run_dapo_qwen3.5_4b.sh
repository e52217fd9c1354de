#!/usr/bin/env bash
# The tutorial on Qwen3.5-4B, start to end (data, evaluation, training, evaluation): one node of 8 GPUs.
#   bash scripts/run_dapo_qwen3.5_4b.sh [--dry-run] [key=value ...]      environment: see launch.sh
set -euo pipefail
exec bash "$(dirname "$0")/launch.sh" recipe.loop \
    experiment=qwen3.5_4b technique=dapo cluster=single_node "$@"
