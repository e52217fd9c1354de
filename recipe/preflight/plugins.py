"""Rules on code that is plugged in by name: it exists where every worker can import it."""

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from recipe.compose import verl_package_dir
from recipe.preflight.data import Data

_PACKAGE = "pkg://"


def modules(config: DictConfig) -> Iterator[str]:
    """Reward manager, reward function, sampler and data set are importable; nothing is imported to see that."""
    manager = config.reward.reward_manager
    named = [
        ("reward.custom_reward_function.path", config.reward.custom_reward_function.path,
         config.reward.custom_reward_function.name),
        ("trainer.v1.sampler.custom_sampler.path", config.trainer.v1.sampler.custom_sampler.path,
         config.trainer.v1.sampler.custom_sampler.name),
        ("data.custom_cls.path", config.data.custom_cls.path, config.data.custom_cls.name),
    ]  # fmt: skip
    if manager.source == "importlib":
        named.append(("reward.reward_manager.module.path", manager.module.path, manager.name))
    for key, path, name in named:
        if path is not None and (problem := _problem(str(path), name)):
            yield f"{key}={path}: {problem}"


def _problem(path: str, name: str) -> str | None:
    """Why `name` of the module cannot be imported by a Ray worker, None when it can."""
    if path.startswith(_PACKAGE):
        module = path[len(_PACKAGE) :].replace("/", ".")
        try:
            spec = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            spec = None
        if spec is None or spec.origin is None:
            return f"no module {module} is installed in this environment; install its package, also on every node"
        source = Path(spec.origin)
    else:
        source = Path(path.removeprefix("file://")).expanduser()
        if not source.is_absolute():
            return "a relative path does not exist in a Ray worker's folder; give an absolute path, or pkg://package.module"
        if not source.is_file():
            return "there is no such file; it must exist on every node"
    return None if defines(source, name) else f"{source} does not define {name}"


def defines(source: Path, name: str) -> bool:
    """Whether a Python file has `name` at its top level, by its syntax tree."""
    found: set[str] = set()
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return name in found


def reward_manager(config: DictConfig) -> Iterator[str]:
    """A punishment that is on has a manager that pays it."""
    manager, shaped = config.reward.reward_manager, config.reward.reward_kwargs.overlong_buffer_cfg.enable
    if shaped and manager.source == "register" and manager.name != "dapo":
        yield (
            f"reward.reward_manager.name={manager.name} ignores reward.reward_kwargs.overlong_buffer_cfg.enable=true: "
            "the punishment would be silently off; use source=importlib, name=DAPORewardManager, "
            "module.path=pkg://reward.manager"
        )


def data_sources(config: DictConfig, data: Data) -> Iterator[str]:
    """verl's own reward dispatcher knows every `data_source`; our manager grades them all."""
    if config.reward.reward_manager.source != "register" or config.reward.custom_reward_function.path is not None:
        return
    names, prefixes = known_sources()
    for facts in data.facts["train_files"] + data.facts["val_files"]:
        for source in facts.sources:
            if source not in names and not source.startswith(prefixes):
                yield (
                    f"{facts.path} has data_source={source!r}, for which verl has no reward: it would stop in the "
                    "middle of a validation; use reward.reward_manager.source=importlib with pkg://reward.manager, "
                    "which grades all"
                )


def known_sources() -> tuple[set[str], tuple[str, ...]]:
    """Names and prefixes of `data_source` that the installed verl dispatches on, read from its source."""
    tree = ast.parse((verl_package_dir() / "utils" / "reward_score" / "__init__.py").read_text())
    names: set[str] = set()
    prefixes: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and node.left.id == "data_source":
            names |= {c.value for c in ast.walk(node) if isinstance(c, ast.Constant) and isinstance(c.value, str)}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith":
            prefixes |= {a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}
    return names, tuple(sorted(prefixes))


def seed(config: DictConfig) -> Iterator[str]:
    """The order of the data is known, so that a resume goes on in it."""
    if OmegaConf.select(config, "data.seed") is None:
        yield "data.seed=null: the order of the prompts would differ from start to start; write ${seed}"
