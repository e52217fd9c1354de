#!/usr/bin/env bash
# Look up every pin of the lock files in PyPI's database of known vulnerabilities (pip-audit, which needs the network).
#   scripts/audit.sh [pip-audit's arguments]     1: a pin is vulnerable, or the database was not reached; the output says which
set -euo pipefail
[ "${1:-}" != --help ] || { sed -n '2,3s/^# \{0,1\}//p' "$0" && exit; }
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

use_venv
status=0
for file in requirements.txt requirements-cpu.txt requirements-flash-attn.txt; do
    say "$file"
    # nothing is resolved or installed; --strict, since a pin that could not be looked up is no good news
    uv tool run pip-audit@2.10.0 --requirement "$file" --disable-pip --no-deps --strict \
        --progress-spinner off "$@" || status=1
done
exit "$status"
