#!/usr/bin/env bash
# Compile pyproject.toml into the three pinned, hashed requirements files.
#   scripts/lock.sh                     bring the files up to date; what is pinned stays where it may
#   scripts/lock.sh --check             resolve anew beside them and compare; 1: stale, 3: the index was not reached
#   scripts/lock.sh --upgrade           move every pin to the newest version (or --upgrade-package NAME, and so on)
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

# any uv from 0.9.17 on; the one that the lock pins where there is an environment
UV=${UV:-$([ -x "${DAPO_VENV:-.venv}/bin/uv" ] && echo "${DAPO_VENV:-.venv}/bin/uv" || echo uv)}
PYTHON_MIN=3.10
FILES=(requirements.txt requirements-cpu.txt requirements-flash-attn.txt)

check=
if [ "${1:-}" = --check ]; then
    check=1
    shift
fi
command -v "$UV" >/dev/null || die "uv is missing: bash scripts/setup.sh brings it"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for file in "${FILES[@]}"; do [ ! -e "$file" ] || cp "$file" "$work/"; done

compile() { # output, uv's arguments...
    local out=$1
    shift
    "$UV" pip compile -q --universal --python-version "$PYTHON_MIN" --generate-hashes --no-strip-extras --no-emit-index-url \
        --custom-compile-command "bash scripts/lock.sh" -o "$work/$out" "$@" 2>"$work/log" && return
    cat "$work/log" >&2
    grep -qiE 'failed to (fetch|download)|error sending request|dns error|connection|timed? ?out' "$work/log" && exit 3
    die "could not resolve $out: uv's reason is above"
}

compile requirements.txt pyproject.toml --extra gpu --extra flash-attn --extra dev --no-emit-package flash-attn "$@"
compile requirements-cpu.txt pyproject.toml --extra cpu --extra dev "$@"
pin=$(sed -n 's/^flash-attn = \["\(.*\)"\].*/\1/p' pyproject.toml)
compile requirements-flash-attn.txt --no-deps "$@" - <<<"$pin"

stale=0
for file in "${FILES[@]}"; do
    strip_environment "$work/$file"
    if [ -z "$check" ]; then
        cp "$work/$file" "$file"
    elif ! diff -u --label "$file" --label "$file, resolved anew" \
        <(grep -v '^ *#' "$file") <(grep -v '^ *#' "$work/$file"); then
        stale=1
    fi
done
[ "$stale" = 0 ] || die "the lock files are not what pyproject.toml resolves to: run bash scripts/lock.sh and commit them"
