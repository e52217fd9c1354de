#!/usr/bin/env bash
# Look up every pin of the lock files in PyPI's database of known vulnerabilities (pip-audit, which needs the network).
#   scripts/audit.sh [pip-audit's arguments]     1: a pin is vulnerable, or the database was not reached; the output says which
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

use_venv
status=0
for file in requirements.txt requirements-cpu.txt requirements-flash-attn.txt; do
    say "$file"
    # what is pinned is looked up as it stands: nothing is resolved or installed
    uv tool run pip-audit@2.10.0 --requirement "$file" --disable-pip --no-deps --progress-spinner off "$@" || status=1
done
exit "$status"
