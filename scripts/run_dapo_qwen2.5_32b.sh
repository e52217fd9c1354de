#!/usr/bin/env bash
# DAPO on Qwen2.5-32B, the full published run: 16 nodes x 8 GPUs.
#   bash scripts/run_dapo_qwen2.5_32b.sh [--dry-run] [key=value ...]      environment: see launch.sh
set -euo pipefail
exec bash "$(dirname "$0")/launch.sh" recipe.main_dapo \
    experiment=qwen2.5_32b technique=dapo cluster=multi_node "$@"
