"""Every key keeps the kind of its default: asked before all other rules, which compare and calculate with the values.

verl and Hydra take any value for any key: `enable=no` is the text "no", which counts as true, and `lr=fast` fails in a
worker, after the model is loaded.
"""

import difflib
import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from omegaconf import DictConfig, OmegaConf

from recipe.compose import CONFIG_DIR, compose

_WORDS = {"experiment": "tiny", "technique": "dapo", "cluster": "cpu"}  # as in configs/dapo_trainer.yaml
# null means something: off, no limit, or what verl computes itself. Those that verl leaves null and a recipe of ours
# sets; and ours, whose comments in configs/dapo_trainer.yaml say so.
NULLABLE = frozenset(
    {
        "actor_rollout_ref.model.external_lib",
        "actor_rollout_ref.rollout.max_model_len",
        "data.seed",
        "distillation.teacher_models.teacher_model.inference.name",
        "ray_kwargs.ray_init.num_cpus",
        "reward.reward_manager.module.path",
        "trainer.max_actor_ckpt_to_keep",
        "trainer.rollout_data_dir",
        "trainer.total_training_steps",
        "trainer.v1.sampler.custom_sampler.name",
        "trainer.v1.sampler.custom_sampler.path",
        "ray_kwargs.ray_init.address",
        "ray_kwargs.ray_init.num_gpus",
        "ray_kwargs.ray_init.object_store_memory",
        "trainer.v1.sampler.sampler_kwargs.filter.low",
        "trainer.v1.sampler.sampler_kwargs.filter.high",
        "trainer.v1.sampler.sampler_kwargs.bounds.max_passes",
        "trainer.v1.sampler.sampler_kwargs.bounds.max_generated",
        "trainer.v1.sampler.sampler_kwargs.bounds.give_up_after_s",
        "trainer.v1.sampler.sampler_kwargs.max_in_flight",
        "trainer.v1.sampler.sampler_kwargs.trace_dir",
        "examples.dir",
        "loop.base_model",
        "loop.warm_start",
        "loop.pretrained",
    }
)
_NEEDED_TEXTS = frozenset(
    {
        "actor_rollout_ref.model.path",
        "data.train_files",
        "data.val_files",
        "run_dir",
        "output_dir",
        "trainer.default_local_dir",
        "trainer.experiment_name",
        "trainer.project_name",
    }
)
# Defaults that are written without a decimal point, but whose values are measured and not counted.
_MEASURED = frozenset(
    {
        "alpha", "cpu_memory_gb", "entropy_coeff", "esi_redundant_time", "give_up_after_s", "gpu_memory_gb", "horizon",
        "lora_alpha", "max_passes", "over_sample_rate", "temperature", "top_p",
    }
)  # fmt: skip
_TEXT_OR_LIST = frozenset(
    {
        "actor_rollout_ref.model.external_lib",
        "actor_rollout_ref.model.target_modules",
        "data.train_files",
        "data.val_files",
        "trainer.logger",
    }
)


def sections(config: DictConfig) -> list[str]:
    """Sections that are none, and keys at the top that nobody reads; without sections no other rule can be asked."""
    raw, default_raw, _ = _compared(config)
    return [*unknown_sections(raw, default_raw), *_replaced_sections(raw, default_raw)]


def kinds(config: DictConfig, elsewhere: frozenset[str] = frozenset()) -> Iterator[str]:
    """Truth values stay truth values, numbers numbers, texts texts, lists lists.

    Args:
        config: a composed recipe, whose sections hold.
        elsewhere: keys that have a rule of their own.

    Raises:
        OmegaConfBaseException: a value cannot be resolved.
    """
    raw, default_raw, default = _compared(config)
    for key in _changed(raw, default_raw):
        value, wanted = _resolved(config, key), _at(default, key)
        if key not in elsewhere and (problem := kind_problem(key, value, wanted)):
            yield f"{key}={shown(value)} must be {problem}; its default is {shown(wanted)}"


def _compared(config: DictConfig) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The configuration as written, and what its three words compose to: as written, and resolved."""
    raw: Any = OmegaConf.to_container(config, resolve=False)
    names = raw["recipe"] if isinstance(raw.get("recipe"), dict) else {}
    return raw, *_defaults(*(_word(group, names.get(group)) for group in _WORDS))


def unknown_sections(raw: Mapping[str, Any], default: Mapping[str, Any]) -> Iterator[str]:
    """Nobody reads a key at the top that neither verl nor this repository has."""
    for key in raw.keys() - default.keys():
        close = difflib.get_close_matches(str(key), default.keys(), n=1)
        hint = f"did you mean {close[0]}?" if close else "leave it out, or name the section that reads it"
        yield f"{key}={shown(raw[key])} is a key that nothing reads: {hint}"


def _replaced_sections(raw: Mapping[str, Any], default: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, wanted in default.items():
        if not isinstance(wanted, dict) or name not in raw:
            continue
        value, key = raw[name], f"{prefix}{name}"
        if isinstance(value, dict):
            yield from _replaced_sections(value, wanted, f"{key}.")
        elif (value is not None or wanted) and not _interpolated(value):
            inside = f"{key}.{max(wanted, key=lambda name: name[0] != '_')}" if wanted else f"+{key}.NAME"
            yield f"{key}={shown(value)} must be a section: set one of its keys, such as {inside}"


def _changed(raw: Mapping[str, Any], default: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Keys whose value is written otherwise than by default: what merely follows another key is not named again."""
    for name, wanted in default.items():
        if isinstance(wanted, dict):
            if isinstance(raw.get(name), dict):
                yield from _changed(raw[name], wanted, f"{prefix}{name}.")
        elif name in raw and (raw[name] != wanted or type(raw[name]) is not type(wanted)):
            yield f"{prefix}{name}"


def _at(node: Any, key: str) -> Any:
    for name in key.split("."):
        node = node[name]
    return node


def _resolved(config: DictConfig, key: str) -> Any:
    node: Any = config
    *parents, name = key.split(".")
    for parent in parents:
        node = node[parent]
    if OmegaConf.is_missing(node, name):
        return "???"
    value = node[name]
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


def kind_problem(key: str, value: Any, default: Any) -> str | None:
    """What a value must be and is not; None when it is of the kind of its default."""
    if default is None or "???" in (value, default):
        return None
    if value is None:
        return _null_problem(key, default)
    if key in _TEXT_OR_LIST:
        return None if isinstance(value, str) or _texts(value) else "a text or a list of texts"
    if isinstance(default, bool):
        return None if isinstance(value, bool) else "true or false"
    if isinstance(default, (int, float)):
        return _number_problem(key, value, whole=isinstance(default, int))
    if isinstance(default, str):
        return None if isinstance(value, str) else "a text (write a number in quotes: '\"5\"')"
    if isinstance(value, list):
        return None if not default or not _texts(default) or _texts(value) else "a list of texts"
    return "a list, such as [a,b]"


def _null_problem(key: str, default: Any) -> str | None:
    if key in NULLABLE or key.startswith("health.") or default == []:
        return None
    if isinstance(default, str):
        return "a text" if key in _NEEDED_TEXTS else None
    if isinstance(default, bool):
        return "true or false"
    return "a list, such as [a,b]" if isinstance(default, list) else "a number"


def _number_problem(key: str, value: Any, whole: bool) -> str | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "a number"
    if not math.isfinite(value):
        return "a finite number"
    if whole and not isinstance(value, int) and key.rpartition(".")[2] not in _MEASURED:
        return "a whole number"
    return None


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def _interpolated(value: Any) -> bool:
    return isinstance(value, str) and "${" in value


def shown(value: Any) -> str:
    """A value as a command line has it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = str(value)
    return text if len(text) < 60 else f"{text[:57]}..."


def _word(group: str, name: Any) -> str:
    """The name of a file that exists: a technique of a user's own name has the kinds of any other."""
    return name if (CONFIG_DIR / group / f"{name}.yaml").is_file() else _WORDS[group]


@lru_cache(maxsize=64)
def _defaults(experiment: str, technique: str, cluster: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the three words compose to without further ones: as written, and resolved."""
    config = compose([f"experiment={experiment}", f"technique={technique}", f"cluster={cluster}"])
    raw: Any = OmegaConf.to_container(config, resolve=False)
    values: Any = OmegaConf.to_container(config, resolve=True)
    return raw, values
