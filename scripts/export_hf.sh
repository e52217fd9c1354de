#!/usr/bin/env bash
# Turns a checkpoint into a Hugging Face folder: shards checked, verl's merger, reloaded, one prompt decoded greedily.
#   scripts/export_hf.sh CKPT OUT [recipe.export options]
#   CKPT  a global_step_N folder, or the checkpoints folder of a run: then the newest complete one
set -euo pipefail
[ -n "${1:-}" ] && [ -n "${2:-}" ] || { sed -n '2,4s/^# //p' "$0" >&2 && exit 2; }
checkpoint=$(realpath -m "$1") out=$(realpath -m "$2")
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh
find_python
exec "$PYTHON" -m recipe.export --checkpoint "$checkpoint" --out "$out" "${@:3}"
