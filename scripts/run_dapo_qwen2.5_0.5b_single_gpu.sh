#!/usr/bin/env bash
# DAPO on Qwen2.5-0.5B-Instruct and GSM8K, start to end: one GPU of 24 GB.
#   bash scripts/run_dapo_qwen2.5_0.5b_single_gpu.sh [--dry-run] [key=value ...]      environment: see launch.sh
set -euo pipefail
exec bash "$(dirname "$0")/launch.sh" recipe.loop \
    experiment=qwen2.5_0.5b_single_gpu technique=dapo cluster=single_gpu "$@"
