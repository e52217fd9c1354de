"""Every YAML file and every launch script composes against the installed verl and becomes verl's own dataclasses."""

import dataclasses
import functools
import importlib
import inspect
import re

import pytest
import ray
import transformers
from omegaconf import OmegaConf
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config

from data_prep.tiny_model import build_tokenizer
from recipe.compose import CONFIG_DIR, verl_config_dir
from recipe.ignored_keys import ignored_keys
from recipe.preflight import check_recipe
from recipe.resolved import flatten, keys_of, yaml_files
from tests.recipe.recipes import NAMES, composed, words

FILES = [str(path.relative_to(CONFIG_DIR)) for path in yaml_files()]
GROUP_FILES = [name for name in FILES if "/" in name]
# Sections that this recipe declares and reads itself.
OURS = (
    "recipe",
    "seed",
    "output_dir",
    "run_dir",
    "data_dir",
    "loop",
    "answer_format",
    "overlong_filtering",
    "preflight",
    "health",
    "examples",
    "allow_changed_resume",
)
# Sections that verl leaves open: what reads them checks their keys.
OPEN = (
    "trainer.v1.sampler.sampler_kwargs",
    "reward.reward_kwargs",
    "ray_kwargs.ray_init",
    "actor_rollout_ref.actor.fsdp_config.mixed_precision",
    "actor_rollout_ref.model.override_config",
    "actor_rollout_ref.rollout.engine_kwargs.vllm",
    "data.apply_chat_template_kwargs",
)
# Where verl's V1 trainer on FSDP and vLLM reads its configuration; some sections only their own dataclasses read.
READERS = (
    "trainer/main_ppo.py",
    "trainer/ppo",
    "workers",
    "utils",
    "experimental/agent_loop",
    "experimental/reward_loop",
)
NOT_READERS = r"megatron|veomni|torchtitan|automodel|sglang|trtllm|ray_trainer|workers/config|_v0|config/"
READERS_OF = {
    "actor_rollout_ref.actor.optim": "verl/workers/config/optimizer.py",
    "actor_rollout_ref.model": "verl/workers/config/model.py",
    "transfer_queue": "transfer_queue",
}


def cases():
    """What to compose so that each script and each file of the three groups is there once: name to words."""
    found = {name: words(name) for name in NAMES}
    for file in GROUP_FILES:
        group, stem = file.removesuffix(".yaml").split("/")
        if not any(f"{group}={stem}" in chosen for chosen in found.values()):
            found[file] = (f"{group}={stem}",) if group == "cluster" else (f"{group}={stem}", "cluster=cpu")
    return found


CASES = cases()


def dataclass_sections(config):
    """The parts that become dataclasses. Not `ref`, of which there is none, nor `reward`, whose class always fails."""
    model = config.actor_rollout_ref
    parts = {"actor": model.actor, "rollout": model.rollout, "model": model.model}
    return parts | {"algorithm": config.algorithm}


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    """Configuration and tokenizer, all that verl's model dataclass loads."""
    folder = tmp_path_factory.mktemp("model")
    build_tokenizer().save_pretrained(folder)
    config = transformers.Qwen2Config(hidden_size=64, num_hidden_layers=2, max_position_embeddings=4096)
    config.architectures = ["Qwen2ForCausalLM"]
    config.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("case", CASES)
def test_composes_and_verl_takes_it(case, model_folder):
    config = composed(*CASES[case])
    chosen = dict(word.split("=", 1) for word in CASES[case])
    assert {group: chosen.get(group, choice) for group, choice in config.recipe.items()} == dict(config.recipe)
    assert check_recipe(config) == []
    validate_config(config, need_reference_policy(config), need_critic(config))
    config.actor_rollout_ref.model.path = model_folder
    for name, section in dataclass_sections(config).items():
        assert dataclasses.is_dataclass(omega_conf_to_dataclass(section)), name


@functools.cache
def upstream_keys():
    """Keys of verl's ppo_trainer, and those that only its dataclasses declare."""
    from hydra import compose, initialize_config_dir

    with initialize_config_dir(str(verl_config_dir()), version_base="1.3"):
        config = compose("ppo_trainer")
    keys = set(flatten(OmegaConf.to_container(config)))
    declared = {
        "actor": "FSDPActorConfig",
        "rollout": "RolloutConfig",
        "rollout.agent": "AgentLoopConfig",
        "model": "HFModelConfig",
    }
    for prefix, name in declared.items():
        fields = dataclasses.fields(getattr(importlib.import_module("verl.workers.config"), name))
        keys |= {f"actor_rollout_ref.{prefix}.{field.name}" for field in fields}
    return keys


@functools.cache
def source_of(*paths, skip="(?!)"):
    """All Python source below `paths` of the installed packages, save files whose path matches `skip`."""
    root = verl_config_dir().parents[2]
    files = [
        file
        for path in paths
        for file in ([root / path] if path.endswith(".py") else sorted((root / path).rglob("*.py")))
    ]
    return "\n".join(file.read_text() for file in files if not re.search(skip, str(file.relative_to(root))))


def is_read(key):
    """Whether something that reads verl's configuration names the key's last part."""
    pattern = rf"""[.]{key.split(".")[-1]}\b|["']{key.split(".")[-1]}["']"""
    own = [path for section, path in READERS_OF.items() if below(key, [section])]
    sources = [source_of(*(f"verl/{path}" for path in READERS), skip=NOT_READERS), *map(source_of, own)]
    return any(re.search(pattern, source) for source in sources)


def below(key, roots):
    return any(key == root or key.startswith(root + ".") for root in roots)


def verl_keys(file):
    return {key for key in keys_of(CONFIG_DIR / file) if not below(key, OURS) and not below(key, OPEN)}


@pytest.mark.parametrize("file", FILES)
def test_no_key_is_unknown_upstream(file):
    known = upstream_keys()
    assert {key for key in verl_keys(file) if key not in known} == set()


@pytest.mark.parametrize("file", FILES)
def test_no_key_is_unread_upstream(file):
    assert {key for key in verl_keys(file) if not is_read(key)} == set()


def test_unread_is_told_from_read():
    """On keys that verl 0.9.1 declares and its FSDP engine ignores."""
    assert not is_read("actor_rollout_ref.actor.grad_clip")
    assert not is_read("trainer.balance_batch")
    assert is_read("actor_rollout_ref.actor.optim.clip_grad")


def test_ray_knows_what_it_is_given():
    known = set(inspect.signature(ray.init).parameters)
    for file in FILES:
        given = {key.split(".")[2] for key in keys_of(CONFIG_DIR / file) if key.startswith("ray_kwargs.ray_init.")}
        assert given <= known, file


@pytest.mark.parametrize(
    ("key", "value", "remedy"),
    [
        ("reward_model.overlong_buffer.enable", True, "reward.reward_kwargs.overlong_buffer_cfg"),
        ("reward_model.reward_kwargs.max_resp_len", 64, "reward.reward_kwargs"),
        ("reward_model.reward_manager", "dapo", "reward.reward_manager"),
        ("custom_reward_function.path", "my.py", "reward.reward_manager"),
        ("algorithm.filter_groups.max_num_gen_batches", 10, "bounds.max_generated"),
        ("algorithm.filter_groups.max_inflight_gen_batches", 3, "max_in_flight"),
        ("data.gen_batch_size", 1536, "max_in_flight"),
        ("actor_rollout_ref.actor.grad_clip", 0.5, "optim.clip_grad"),
        ("actor_rollout_ref.nccl_timeout", 1800, "no worker reads it"),
        ("trainer.balance_batch", False, "always balances"),
    ],
)
def test_ignored_keys_are_refused_with_what_replaces_them(key, value, remedy):
    config = OmegaConf.create({"algorithm": {}})
    OmegaConf.update(config, key, value)
    (problem,) = ignored_keys(config)
    assert f"{key}={value} " in problem
    assert remedy in problem


def test_command_line_wins_over_every_file():
    words = (
        "cluster=cpu",
        "technique=dapo",
        "technique=early",
        "trainer.total_training_steps=7",
        "data.max_response_length=48",
    )
    config = composed(*words)
    assert (config.trainer.total_training_steps, config.recipe.technique) == (7, "early")
    assert config.reward.reward_kwargs.max_resp_len == 48
