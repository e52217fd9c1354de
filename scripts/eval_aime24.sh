#!/usr/bin/env bash
# Serve a model, wait until it is ready, evaluate it on AIME 2024, stop the server and print the result.
#   scripts/eval_aime24.sh MODEL [key=value ...] [--flag ...]
# key=value: options of the server, as after `serve run eval.llm:build_app`; --flag: those of eval/eval_aime24.py, and the
# last one wins. The same command goes on where it stopped.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
TEST_FILE=${TEST_FILE:-$root/data/aime-2024.parquet} # scripts/prepare_data.sh writes it
TEMPERATURE=${TEMPERATURE:-1.0}
TOP_P=${TOP_P:-0.7}
MAX_TOKENS=${MAX_TOKENS:-20480} # response tokens
TENSOR_PARALLEL_SIZE=${TENSOR_PARALLEL_SIZE:-} # GPUs a replica; empty: all that nvidia-smi lists, or 1
# shellcheck source=scripts/lib.sh
. "$root/scripts/lib.sh"

[ $# -gt 0 ] || {
    sed -n '2,5s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
find_python
model=$1
shift
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)
server=("tensor-parallel-size=${TENSOR_PARALLEL_SIZE:-$((gpus > 0 ? gpus : 1))}")
while [ $# -gt 0 ] && [[ $1 != -* ]]; do
    server+=("$1")
    shift
done

PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}" exec "$PYTHON" -m eval.served "$model" "${server[@]}" \
    --test_file "$TEST_FILE" --temperature "$TEMPERATURE" --top_p "$TOP_P" --max_tokens "$MAX_TOKENS" "$@"
