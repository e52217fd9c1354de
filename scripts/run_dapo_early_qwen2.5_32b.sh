#!/usr/bin/env bash
# The early release on Qwen2.5-32B (no token-level loss, no dynamic sampling): 16 nodes x 8 GPUs.
#   bash scripts/run_dapo_early_qwen2.5_32b.sh [--dry-run] [key=value ...]      environment: see launch.sh
set -euo pipefail
exec bash "$(dirname "$0")/launch.sh" recipe.main_dapo \
    experiment=qwen2.5_32b technique=early cluster=multi_node "$@"
