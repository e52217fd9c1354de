# shellcheck shell=bash
# Shared by the scripts of this folder and by .ci/run: source it, do not run it.

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }

die() {
    say "$*"
    exit 1
}

# The one block "name==version ... --hash=..." of a lock file, as a requirements file of its own.
locked_block() { # name lock
    awk -v name="$1==" 'index($0, name) == 1 { on = 1 } on { print } on && !/\\$/ { exit }' "$2"
}

# A marker of pyproject.toml's tool.uv.environments stands on every line of a fresh resolution. It must go: with it,
# pip on another Python skips every line and reports success.
strip_environment() { # lock
    sed -E -i \
        -e "s/ and sys_platform == 'linux'//g" -e "s/sys_platform == 'linux' and //g" \
        -e "s/ and python_full_version < '3\.13'//g" -e "s/python_full_version < '3\.13' and //g" \
        -e "s/ ; (python_full_version < '3\.13'|sys_platform == 'linux') / /" "$1"
}

# Prints the python of the environment DAPO_VENV (a folder, relative to the repository; .venv when empty); 1: there is none.
venv_python() {
    local python=${DAPO_VENV:-.venv}/bin/python
    [[ $python == /* ]] || python=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/$python
    [ -x "$python" ] && echo "$python"
}

# Whether this python has what the scripts need, as that of a conda environment may.
has_packages() { # python
    "$1" -c 'import omegaconf, importlib.util as u; raise SystemExit(not u.find_spec("verl"))' 2>/dev/null
}

no_environment() { die "no environment at ${DAPO_VENV:-.venv}: bash scripts/setup.sh cpu (or gpu), or set DAPO_VENV"; }

# Unless PYTHON is set: set it to that python, its folder first on the PATH, or to python3 where that has the packages.
find_python() {
    local found
    [ -z "${PYTHON:-}" ] || return 0
    PYTHON=python3
    if found=$(venv_python); then
        PYTHON=$found PATH=$(dirname "$found"):$PATH
    else
        has_packages "$PYTHON" || no_environment
    fi
}

# Set up if needed, then let python, ruff, pytest, ... be those of the environment. Run it in the repository's root.
use_venv() {
    bash scripts/setup.sh
    VIRTUAL_ENV=$(cd "${DAPO_VENV:-.venv}" && pwd)
    export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH"
    unset PYTHONHOME PYTHONDONTWRITEBYTECODE # without compiled files each process starts 10 s later
}
