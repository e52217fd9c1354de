"""The locks hold what pyproject.toml, verl and the packages' own metadata ask for, in a form that pip takes."""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REPOSITORY = Path(__file__).resolve().parents[1]
LOCKS = ["requirements.txt", "requirements-cpu.txt", "requirements-flash-attn.txt"]
PYTHONS = ["3.10", "3.11", "3.12"]
FLASH_ATTN_BUILDS_WITH = {"torch", "setuptools", "wheel", "packaging", "psutil", "ninja"}  # its setup.py imports them
FLASH_ATTN_RUNS_WITH = {"torch", "einops"}


def blocks(lock: str) -> list[str]:
    text = re.sub(r"^ *#.*\n", "", (REPOSITORY / lock).read_text(), flags=re.MULTILINE)
    return text.replace("\\\n", " ").strip().splitlines()


def pins(lock: str) -> list[Requirement]:
    return [Requirement(block.split("--hash=")[0]) for block in blocks(lock) if block.strip()]


def pinned_for(lock: str, python: str) -> dict[str, list[Requirement]]:
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": "linux",
        "platform_machine": "x86_64",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    found: dict[str, list[Requirement]] = {}
    for pin in pins(lock):
        if pin.marker is None or pin.marker.evaluate(environment):
            found.setdefault(canonicalize_name(pin.name), []).append(pin)
    return found


def version(pin: Requirement) -> str:
    (specifier,) = pin.specifier
    return specifier.version


def project() -> dict:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("lock", LOCKS)
def test_every_line_is_one_version_with_hashes_and_no_host(lock):
    for block, pin in zip(blocks(lock), pins(lock), strict=True):
        assert [specifier.operator for specifier in pin.specifier] == ["=="], block[:80]
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", block), block[:80]
    text = (REPOSITORY / lock).read_text()
    assert "://" not in text
    assert "index-url" not in text


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("lock", LOCKS)
def test_each_package_has_one_version_on_each_python(lock, python):
    twice = {name: found for name, found in pinned_for(lock, python).items() if len(found) > 1}
    assert not twice


@pytest.mark.parametrize("lock", LOCKS)
def test_no_line_is_for_other_pythons_and_none_is_skipped_on_them(lock):
    """With python_full_version < '3.13' on every line, pip on 3.13 installs nothing and reports success."""
    markers = [str(pin.marker) for pin in pins(lock) if pin.marker]
    assert not [marker for marker in markers if "3.13" in marker or "sys_platform" in marker]
    assert len(markers) < len(pins(lock)) / 2 or lock == "requirements-flash-attn.txt"


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize(("lock", "extra"), [("requirements.txt", "gpu"), ("requirements-cpu.txt", "cpu")])
def test_what_pyproject_asks_for_is_pinned_as_it_asks(lock, extra, python):
    pinned = pinned_for(lock, python)
    wanted = project()["dependencies"] + project()["optional-dependencies"][extra]
    for want in map(Requirement, wanted + project()["optional-dependencies"]["dev"]):
        (pin,) = pinned[canonicalize_name(want.name)]
        assert want.specifier.contains(version(pin), prereleases=True), (str(want), str(pin))


@pytest.mark.parametrize(("extra", "lock"), [("vllm", "requirements.txt"), ("flash-attn-cu130torch211", LOCKS[2])])
def test_pins_are_those_that_verl_asks_for(extra, lock):
    asked = [Requirement(text) for text in importlib.metadata.requires("verl") or []]
    exact = [
        want
        for want in asked
        if want.marker and want.marker.evaluate({"extra": extra}) and not want.marker.evaluate({"extra": ""})
        if any(specifier.operator == "==" for specifier in want.specifier)
    ]
    assert exact
    for want in exact:
        (pin,) = pinned_for(lock, "3.11")[canonicalize_name(want.name)]
        assert version(pin) in want.specifier, (str(want), str(pin))


def test_flash_attn_is_a_step_of_its_own_and_finds_what_it_builds_with():
    first = pinned_for("requirements.txt", "3.10").keys()
    assert "flash-attn" not in first
    assert first >= FLASH_ATTN_BUILDS_WITH | FLASH_ATTN_RUNS_WITH
    assert pinned_for("requirements-flash-attn.txt", "3.10").keys() == {"flash-attn"}


def test_extras_are_written_out():
    """In hash mode pip treats name[extra] as unpinned where the lock says name only, and stops after the download."""
    pinned = pinned_for("requirements-cpu.txt", f"{sys.version_info.major}.{sys.version_info.minor}")
    missing = []
    for name in pinned.keys() & {canonicalize_name(d.name) for d in importlib.metadata.distributions()}:
        extras: set[str] = pinned[name][0].extras or {""}
        texts = [text for text in importlib.metadata.requires(name) or [] if "[" in text.split(";")[0]]
        for want in map(Requirement, texts):
            if want.marker is None or any(want.marker.evaluate({"extra": extra}) for extra in extras):
                have = [] if canonicalize_name(want.name) == name else pinned.get(canonicalize_name(want.name), [])
                missing += [f"{name}: {want}" for pin in have if not want.extras <= pin.extras]
    assert not missing


def test_the_installed_recipe_is_this_one_from_anywhere(tmp_path):
    """TransferQueue leaves a folder of the same name in site-packages."""
    try:
        importlib.metadata.distribution("dapo-recipe")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("this repository is not installed here: bash scripts/setup.sh does that")
    code = "import data_prep, eval, recipe, reward; print(recipe.__file__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == REPOSITORY / "recipe" / "__init__.py"


@pytest.mark.e2e
def test_locks_are_what_pyproject_resolves_to():
    done = subprocess.run(["bash", "scripts/lock.sh", "--check"], cwd=REPOSITORY, capture_output=True, text=True)
    if done.returncode == 3:
        pytest.skip("the package index was not reached")
    assert done.returncode == 0, done.stdout + done.stderr
