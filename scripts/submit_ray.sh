#!/usr/bin/env bash
# Runs a launch script as a Ray job and follows its log; the job runs on when you stop following (ray job stop ID).
#   RAY_ADDRESS=http://head:8265 scripts/submit_ray.sh scripts/run_dapo_qwen2.5_32b.sh [key=value ...]
# The repository goes along without .git, data, outputs and environments; what it has beyond its commit goes along in
# .submitted.json, for the run's stamp. Paths are those of the nodes: data, outputs and
# models belong on storage that all of them see. FORWARD names further variables for the job, no secrets: Ray shows their
# values to whoever sees its dashboard. Log in on the nodes, or set HF_TOKEN and WANDB_API_KEY before their ray start.
set -euo pipefail

repository=$(realpath "$(dirname "$0")/..")
export RAY_ADDRESS=${RAY_ADDRESS:-http://127.0.0.1:8265}
# In a job a relative path would lie in the folder that Ray unpacks there, and removes with everything in it.
DATA_DIR=$(realpath -ms "${DATA_DIR:-$repository/data}") OUTPUT_DIR=$(realpath -ms "${OUTPUT_DIR:-$repository/outputs}")
[ ! -d "${MODEL_PATH:-}" ] || MODEL_PATH=$(realpath -s "$MODEL_PATH") # otherwise a Hub name, or a folder of the nodes
export DATA_DIR OUTPUT_DIR
[ $# -gt 0 ] || { echo "usage: submit_ray.sh SCRIPT [key=value ...]" >&2 && exit 2; }
script=$(realpath --relative-to="$repository" "$1")
shift
cd "$repository"

# shellcheck source=scripts/lib.sh
. scripts/lib.sh
here=$(venv_python) || here=${PYTHON:-python3}
[ -n "${PYTHON:-}" ] || [ "$here" != python3 ] || has_packages python3 || no_environment
export PYTHON=${PYTHON:-$here} # of the nodes; python3 if they have their own
listed=$(bash "$script" "$@" --overrides) # by itself: a substitution inside mapfile would lose its status
mapfile -t words <<<"$listed"
"$here" -m recipe.ray_cluster check "$RAY_ADDRESS" "${words[@]}"

names=(DATA_DIR OUTPUT_DIR PYTHON MODEL_PATH NNODES N_GPUS_PER_NODE HF_HOME HF_HUB_OFFLINE)
mapfile -t tuning < <(compgen -e | grep -E '^(NCCL|GLOO|VLLM|TORCH)_')
read -ra more <<<"${FORWARD:-}"
finish() { # the job runs on
    rm -f .submitted.json
    [ -z "${follower:-}" ] || kill "$follower" 2>/dev/null || true # it has ended, unless we were told to
}
trap finish EXIT
trap 'exit 143' TERM INT
environment=$("$here" -m recipe.ray_cluster runtime_env "$repository" "${names[@]}" "${tuning[@]}" "${more[@]}")
"$(dirname "$(command -v "$here")")/ray" job submit --runtime-env-json "$environment" -- bash "$script" "$@" &
follower=$!
wait "$follower" && follower=
