#!/usr/bin/env bash
# Create .venv from the lock file, with this repository installed into it (editable).
#   scripts/setup.sh [cpu|gpu]    without a word: what .venv already is, else gpu where an NVIDIA GPU is seen, else cpu
# Does nothing, in well under a second, when nothing changed. Builds beside .venv and swaps at the end: what fails or
# is interrupted leaves .venv as it was.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

VENV=${DAPO_VENV:-.venv}         # where to; relative to the repository
PYTHON=${PYTHON:-}               # an interpreter, 3.10 to 3.12; empty: look for one
FLASH_ATTN=${FLASH_ATTN:-auto}   # gpu only. auto: build where nvcc is; build; skip; or a wheel (path or address)
MIN_DISK_GB=${MIN_DISK_GB:-}     # refuse below this much free disk; empty: 8 for cpu, 16 for gpu; 0: do not look
export UV_HTTP_TIMEOUT=${UV_HTTP_TIMEOUT:-180}

RANGE='>=3.10,<3.13'
STAMP=$VENV/.setup-stamp

case ${1:-} in
'' | cpu | gpu) extra=${1:-} ;;
*) die "what is '$1'? The choices are cpu and gpu." ;;
esac

in_range() { "$1" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 13))' 2>/dev/null; }

fingerprint() { # extra: all that .venv is made from
    local locks=(requirements-cpu.txt)
    [ "$1" = cpu ] || locks=(requirements.txt requirements-flash-attn.txt)
    echo "format 1, extra $1, flash-attn $FLASH_ATTN, in $PWD"
    cat "${locks[@]}" | sha256sum
}

up_to_date() {
    [ -f "$STAMP" ] || return 1
    local have
    have=$(sed -n '1s/.*, extra \([a-z]*\),.*/\1/p' "$STAMP")
    extra=${extra:-$have}
    [ "$(fingerprint "$extra")" = "$(cat "$STAMP")" ] && in_range "$VENV/bin/python" || return 1
    [ -z "$PYTHON" ] || [ "$(minor "$PYTHON")" = "$(minor "$VENV/bin/python")" ]
}

minor() { "$1" -c 'import sys; print(sys.version_info[:2])' 2>/dev/null || true; }

pick_extra() {
    if compgen -G '/dev/nvidia[0-9]*' >/dev/null || nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
        echo gpu
        return
    fi
    [ ! -e /dev/kfd ] || say "an AMD GPU is here (/dev/kfd), but this repository was made for NVIDIA GPUs: taking cpu"
    echo cpu
}

pick_uv() {
    command -v uv && return
    [ -x .uv/bin/uv ] && echo .uv/bin/uv && return
    local python
    for python in "$PYTHON" python3 python3.12 python3.11 python3.10 python; do
        "${python:-false}" -m pip --version >/dev/null 2>&1 || continue
        say "uv is missing: installing the pinned one into .uv with $python -m pip"
        locked_block uv requirements-cpu.txt >"$work/uv.txt"
        # --target: a place of its own, allowed where the Python is externally managed (PEP 668)
        "$python" -m pip install -q --disable-pip-version-check --no-deps --target "$work/uv" -r "$work/uv.txt" >&2 ||
            die "pip could not install uv (its reason is above). Check the network, or install uv yourself; then run this again."
        rm -rf .uv && mv "$work/uv" .uv
        echo .uv/bin/uv
        return
    done
    die "neither uv nor a Python with pip is on the PATH. Install one of the two, then run this again."
}

pick_python() { # a path, or the range for uv to download
    if [ -n "$PYTHON" ]; then
        in_range "$PYTHON" || die "PYTHON=$PYTHON is $("$PYTHON" -V 2>&1 | tail -1): verl, Ray and vLLM are locked for" \
            "Python 3.10, 3.11 and 3.12. Set PYTHON to one of these, or unset it to let this script look for one."
        command -v "$PYTHON"
        return
    fi
    local python
    for python in python3 python3.12 python3.11 python3.10; do
        in_range "$python" && command -v "$python" && return
    done
    "$uv" python find --no-project "$RANGE" 2>/dev/null || echo "$RANGE"
}

check_disk() {
    local need=$MIN_DISK_GB free
    [ -n "$need" ] || { [ "$extra" = cpu ] && need=8 || need=16; }
    free=$(($(df -Pk . | awk 'NR == 2 { print $4 }') / 1048576))
    [ "$free" -ge "$need" ] || die "$free GB are free here, and the $extra packages take up to $need GB. Make room, or set" \
        "MIN_DISK_GB=0 where uv's cache is on this disk and already holds them."
}

install() { "$uv" pip install -q --python "$new/bin/python" --no-deps --no-build-isolation "$@"; }

install_flash_attn() { # its build imports torch: CONTRIBUTING.md
    local wheel=$FLASH_ATTN
    case $wheel in
    skip) return ;;
    auto)
        if ! command -v nvcc >/dev/null && [ ! -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; then
            say "flash-attn is left out: PyPI has its source only, and there is no nvcc to build it. Training then needs" \
                "sdpa attention and no Ulysses. Later: FLASH_ATTN=build (CUDA 13 toolkit) or FLASH_ATTN=a/wheel.whl" \
                "bash scripts/setup.sh gpu"
            return
        fi
        ;&
    build)
        say "building flash-attn from source, up to an hour (FLASH_ATTN_CUDA_ARCHS=90 builds for one GPU type only)"
        # FORCE_BUILD: its setup.py would fetch an unpinned binary, for CUDA 13 even that of CUDA 12
        FLASH_ATTENTION_FORCE_BUILD=TRUE install -r requirements-flash-attn.txt || true
        ;;
    *) install "$wheel" || true ;;
    esac
    "$new/bin/python" -c 'import flash_attn' ||
        die "flash-attn did not install (the reason is above). FLASH_ATTN=skip does without; or name a wheel built for" \
            "torch 2.11, CUDA 13 and this Python: FLASH_ATTN=path/to/flash_attn.whl bash scripts/setup.sh gpu"
}

# Ten processes import these at the start of a run, and on two cores compiling them each time costs minutes. Compiling
# what they need is four times quicker than compiling all that is installed. A module that is missing is no error.
byte_compile() {
    local loop='import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)'
    compile_some() { exec env -u PYTHONDONTWRITEBYTECODE "$new/bin/python" -c "$loop" "$@" >/dev/null 2>&1; }
    compile_some torch torch._inductor.compile_fx transformers.models.qwen2.modeling_qwen2 verl.trainer.main_ppo &
    jobs+=($!)
    compile_some wandb datasets ray.dashboard.agent ray.serve vllm.entrypoints.openai.api_server \
        vllm.v1.worker.gpu_worker &
    jobs+=($!)
    wait "${jobs[@]}" || true
    jobs=()
}

clean_up() {
    [ ${#jobs[@]} = 0 ] || kill "${jobs[@]}" 2>/dev/null || true # a signal to this script alone did not reach them
    wait
    rm -rf "$work" "$new"
}

! up_to_date || exit 0

work=$(mktemp -d)
new=$VENV.new.$$
jobs=()
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
exec 9>"$VENV.lock"
if command -v flock >/dev/null && ! flock -n 9; then
    say "another set-up is at work here: waiting for it"
    flock 9
fi
! up_to_date || exit 0
rm -rf "$VENV".new.* "$VENV".old.* # of a set-up that was killed
[ ! -e "$VENV" ] || [ -f "$STAMP" ] ||
    die "$VENV was not made by this script, and is left alone. Move it away, or choose another place: DAPO_VENV=.venv-dapo"

extra=${extra:-$(pick_extra)}
started=$SECONDS
check_disk
uv=$(pick_uv)
python=$(pick_python)
say "making $VENV: $extra packages, Python $python"
"$uv" venv -q --relocatable --python "$python" "$new" ||
    die "no environment could be made with Python $python (uv's reason is above). Where no Python 3.10, 3.11 or 3.12 is" \
        "installed and uv cannot download one, install one, or name it: PYTHON=/path/to/python3.11 bash scripts/setup.sh"

lock=requirements-cpu.txt
[ "$extra" = cpu ] || lock=requirements.txt
locked_block setuptools "$lock" >"$work/setuptools.txt" # source packages are built with the pinned setuptools
{ install -r "$work/setuptools.txt" && install --require-hashes -r "$lock"; } ||
    die "the packages of $lock did not install (uv's reason is above). When the download broke off, run the same command" \
        "again: what has arrived is kept in uv's cache. $VENV is as it was before."
[ "$extra" = cpu ] || install_flash_attn
install --offline -e . || die "this repository did not install into its environment (uv's reason is above)."
byte_compile

fingerprint "$extra" >"$new/.setup-stamp"
[ ! -e "$VENV" ] || mv "$VENV" "$VENV.old.$$"
mv "$new" "$VENV"
rm -rf "$VENV.old.$$"
say "done in $((SECONDS - started)) s"
