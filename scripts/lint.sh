#!/usr/bin/env bash
# Style, types and shell scripts. scripts/test.sh, pre-commit and .ci/run all come here.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

use_venv
failed=()
check() { # name, command...
    echo "== $1"
    "${@:2}" || failed+=("$1")
}

check "ruff check" ruff check .
check "ruff format" ruff format --check .
check "mypy" mypy
check "shellcheck" shellcheck -x scripts/*.sh scripts/slurm/*.sbatch .ci/run
[ ${#failed[@]} = 0 ] || die "failed: ${failed[*]}"
