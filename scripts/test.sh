#!/usr/bin/env bash
# Set up if needed; style, types and shell scripts; then the fast tests (no network, no GPU, no model).
#   scripts/test.sh [pytest arguments]     -m e2e: the tests that run the real stack on CPU, instead of the fast ones
#   scripts/test.sh faults [--help ...]    kills, full disks and damaged files on the real stack; an hour or more
# A style error does not keep the tests from running, but does fail this script.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

use_venv
if [ "${1:-}" = faults ]; then
    exec python -m tests.faults "${@:2}"
fi
lint=0
bash scripts/lint.sh || lint=$?
echo "== pytest"
python -m pytest "$@"
exit "$lint"
