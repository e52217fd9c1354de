#!/usr/bin/env bash
# DAPO without dynamic sampling on Qwen2.5-32B, as released: 16 nodes x 8 GPUs, less memory for the rollout engine.
#   bash scripts/run_dapo_wo_ds_qwen2.5_32b.sh [--dry-run] [key=value ...]      environment: see launch.sh
set -euo pipefail
exec bash "$(dirname "$0")/launch.sh" recipe.main_dapo experiment=qwen2.5_32b technique=wo_dynamic_sampling \
    cluster=multi_node actor_rollout_ref.rollout.gpu_memory_utilization=0.70 "$@"
