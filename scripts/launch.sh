#!/usr/bin/env bash
# What every run_*.sh goes through: takes paths and sizes from the environment, then shows or runs a recipe.
#   scripts/launch.sh MODULE [--dry-run|--overrides] key=value ...      MODULE: recipe.main_dapo (train) or recipe.loop
#   --dry-run      print the plan, its problems and the exact command; needs no GPU, starts nothing
#   --recipe-only  with --dry-run: this machine's files, disks and devices are not looked at
#   --overrides    print the recipe's own words, one a line, without paths of this machine
# Environment: MODEL_PATH (folder or Hub name), DATA_DIR, OUTPUT_DIR, NNODES, N_GPUS_PER_NODE; empty: the recipe's.
# Of two words for one key the later wins: environment, script, command line.
set -euo pipefail

[[ " $* " != *" --help "* && " $* " != *" -h "* ]] || {
    sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit
}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
MODEL_PATH=${MODEL_PATH:-}                               # model folder or Hub name; empty: the recipe's
DATA_DIR=$(realpath -m "${DATA_DIR:-$root/data}")        # where scripts/prepare_data.sh wrote
OUTPUT_DIR=$(realpath -m "${OUTPUT_DIR:-$root/outputs}") # one folder a run; with several nodes, on shared storage
NNODES=${NNODES:-}                                       # empty: the recipe's
N_GPUS_PER_NODE=${N_GPUS_PER_NODE:-}                     # empty: the recipe's
[ ! -d "$MODEL_PATH" ] || MODEL_PATH=$(realpath "$MODEL_PATH")
# shellcheck source=scripts/lib.sh
. "$root/scripts/lib.sh"
find_python

quoted() { # key value, as Hydra reads it: a backslash is escaped only before a quote
    printf "%s='%s'" "$1" "$(sed -E "s/(\\\\+)('|\$)/\\1\\1\\2/g; s/'/\\\\'/g" <<<"$2")"
}
refuse() { echo "launch.sh: $*" >&2 && exit 2; }

module=$1
shift
mode=run
plan=(-m recipe.preflight)
words=(${NNODES:+"trainer.nnodes=$NNODES"} ${N_GPUS_PER_NODE:+"trainer.n_gpus_per_node=$N_GPUS_PER_NODE"})
for word in "$@"; do
    case $word in
    --dry-run | --overrides) mode=${word#--} ;;
    --recipe-only) plan+=("$word") ;;
    -*) refuse "unknown option $word; known: --dry-run, --recipe-only, --overrides, --help, key=value" ;;
    *) words+=("$word") ;;
    esac
done
if [ "$mode" = overrides ]; then
    printf '%s\n' "${words[@]}"
    exit
fi

for path in "$DATA_DIR" "$OUTPUT_DIR" "$MODEL_PATH"; do
    [[ $path != *\$\{* ]] || refuse "DATA_DIR, OUTPUT_DIR, MODEL_PATH: \${ in $path would be read as a key: rename it"
done
words=("$(quoted data_dir "$DATA_DIR")" "$(quoted output_dir "$OUTPUT_DIR")" "${words[@]}")
[ -z "$MODEL_PATH" ] || words=("$(quoted actor_rollout_ref.model.path "$MODEL_PATH")" "${words[@]}")
for word in "${words[@]}"; do # a rehearsal is run by a module of its own
    [ "$word" != cluster=rehearsal ] || module=recipe.rehearsal
done
unset PYTHONDONTWRITEBYTECODE # without compiled files each process starts 10 s later
cd "$root"
if [ "$mode" = dry-run ]; then
    [ "$module" != recipe.rehearsal ] || refuse "a rehearsal has no dry run: leave out --dry-run, or cluster=rehearsal"
    [ "$module" != recipe.loop ] || plan+=(--loop) # it makes data and model itself
    status=0
    "$PYTHON" "${plan[@]}" "${words[@]}" || status=$?
    printf '\ncommand:\n  cd %q\n  %q -m %s' "$root" "$PYTHON" "$module"
    printf ' \\\n    %q' "${words[@]}"
    echo
    exit "$status"
fi
exec "$PYTHON" -m "$module" "${words[@]}"
