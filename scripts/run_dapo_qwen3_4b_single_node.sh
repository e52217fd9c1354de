#!/usr/bin/env bash
# DAPO on Qwen3-4B-Base: one node of 8 GPUs.
#   bash scripts/run_dapo_qwen3_4b_single_node.sh [--dry-run] [key=value ...]      environment: see launch.sh
set -euo pipefail
exec bash "$(dirname "$0")/launch.sh" recipe.main_dapo \
    experiment=qwen3_4b_single_node technique=dapo cluster=single_node "$@"
