"""What our own code must not do, seen in its syntax tree. Exceptions stand here, each with its reason."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("recipe", "reward", "data_prep", "eval")
SOURCES = sorted(path for package in (*PACKAGES, "scripts") for path in (ROOT / package).rglob("*.py"))

CALLS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "subprocess.getoutput", "tempfile.mktemp"}
CALLS |= {"asyncio.create_subprocess_shell", "subprocess.getstatusoutput", "pandas.read_pickle", "pd.read_pickle"}
MODULES = {"pickle", "cPickle", "marshal", "shelve", "dill", "joblib", "cloudpickle"}
KEYWORDS = {("shell", True), ("trust_remote_code", True), ("allow_pickle", True), ("weights_only", False)}
ALLOWED = {
    # a run's own checkpoint, pickled as the rest of verl's; README: resume only from folders that you trust
    ("recipe/trainer.py", "weights_only=False"),
    # the code of `python -c CODE`, for multiprocessing; its socket lies in a folder of the user's own
    ("recipe/cpu/prefork/worker.py", "exec()"),
}


def violations(source):
    """Forbidden calls, imports and keywords of a Python source, as short texts."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (f"import {a.name}" for a in node.names if a.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            yield f"import {node.module}"
        elif isinstance(node, ast.ImportFrom):
            yield from (f"import {name}" for a in node.names if (name := f"{node.module}.{a.name}") in CALLS)
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in CALLS:
                yield f"{name}()"
            if name.endswith(".from_pretrained") and "trust_remote_code" not in {k.arg for k in node.keywords}:
                yield "from_pretrained() without trust_remote_code"  # transformers would ask on a terminal
            if name == "torch.load" and "weights_only" not in {k.arg for k in node.keywords}:
                yield "torch.load() without weights_only"
            if name == "yaml.load" and "SafeLoader" not in ast.unparse(node):
                yield "yaml.load() without a safe loader"
            for keyword in node.keywords:
                value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
                if (keyword.arg, value) in KEYWORDS:
                    yield f"{keyword.arg}={value}"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("eval(text)", "eval()"),
        ("from pickle import load", "import pickle"),
        ("import os\nos.system(f'rm {path}')", "os.system()"),
        ("subprocess.run(f'ls {path}', shell=True)", "shell=True"),
        ("torch.load(path)", "torch.load() without weights_only"),
        ("torch.load(path, weights_only=False)", "weights_only=False"),
        ("yaml.load(text)", "yaml.load() without a safe loader"),
        ("AutoTokenizer.from_pretrained(name, trust_remote_code=True)", "trust_remote_code=True"),
        ("AutoTokenizer.from_pretrained(**where)", "from_pretrained() without trust_remote_code"),
        ("await asyncio.create_subprocess_shell(text)", "asyncio.create_subprocess_shell()"),
        ("from asyncio import create_subprocess_shell", "import asyncio.create_subprocess_shell"),
        ("from os import path, system", "import os.system"),
        ("import pandas as pd\npd.read_pickle(path)", "pd.read_pickle()"),
        ("from pandas import read_pickle", "import pandas.read_pickle"),
    ],
)
def test_what_the_rule_sees(source, found):
    assert list(violations(source)) == [found]


def test_our_code_runs_nothing_that_it_reads():
    found = {(str(p.relative_to(ROOT)), v) for p in SOURCES for v in violations(p.read_text())}
    assert len(SOURCES) > 100
    assert found == ALLOWED
