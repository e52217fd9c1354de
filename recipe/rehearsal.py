"""The dress rehearsal: any recipe through the real stack on a CPU, in minutes, before it meets a cluster.

    bash scripts/run_dapo_qwen2.5_32b.sh cluster=rehearsal
    python -m recipe.rehearsal experiment=... technique=... [key=value ...]

Data, a narrow model of the recipe's own architecture, training with a checkpoint at each step, a resume, the export
and an evaluation. What was scaled, what a CPU forbids and what is as it will be is printed and written to
`rehearsal.json`. A second rehearsal of a recipe starts anew in the same folder.
"""

import json
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from recipe.compose import CONFIG_DIR, compose
from recipe.diff import differences
from recipe.errors import ConfigError
from recipe.loop.phases import QUIET, Phase, evaluation_words, quoted
from recipe.loop.processes import run_phase
from recipe.loop.supervised import supervised
from recipe.preflight.model_facts import model_folder
from recipe.provenance import write_text_atomic
from recipe.rehearsal_scale import SCALED, scaled
from recipe.resolved import flatten, keys_of

CLUSTER = "cluster=rehearsal"
REHEARSAL = CONFIG_DIR / "cluster" / "rehearsal.yaml"
MARKER = ".rehearsal"  # in a folder that a rehearsal made
REPLACED = ("data.train_files", "data.val_files", "data.val_max_samples", "actor_rollout_ref.model.path")
OWN = ("recipe.cluster", "run_dir", "preflight", "loop")  # names, and what is read around the training only
# Families by the Hub name's beginning, where the model's own configuration is not here; the longest match counts.
FAMILIES = {"Qwen2.5": "qwen2", "Qwen3": "qwen3", "Qwen3.5": "qwen3_5", "SmolLM2": "llama"}
POSITIONS = {"Qwen2.5-Math": 4096}  # of the others a CPU rehearsal could not tell 32,768 from more
ON_CPU = ("llama", "qwen2", "qwen3")  # as data_prep.rehearsal_model, which imports torch
STAND_IN = "qwen2"


def architecture(config: DictConfig) -> tuple[str, int]:
    """`model_type` and `max_position_embeddings` of the recipe's model, from its files or, without them, its name."""
    folder, name = model_folder(config), str(config.actor_rollout_ref.model.path).split("/")[-1]
    if folder is not None:
        found = json.loads((folder / "config.json").read_text())
        text = found.get("text_config", found)
        return found["model_type"], text["max_position_embeddings"]
    families = [family for family in FAMILIES if name.startswith(family)]
    if not families:
        raise ConfigError(
            "this recipe cannot be rehearsed:", [f"the architecture of {name} is unknown without its files"]
        )
    positions = next((count for prefix, count in POSITIONS.items() if name.startswith(prefix)), 32768)
    return FAMILIES[max(families, key=len)], positions


def rehearsal_words(real: list[str], config: DictConfig) -> list[str]:
    """The words of the rehearsal of a recipe, given those of the recipe and what they compose to."""
    values = scaled(flatten(config))
    run_dir = f"{config.output_dir}/rehearsal-{config.trainer.experiment_name}"
    values |= {
        "run_dir": quoted(str(Path(run_dir).expanduser().resolve())),
        "data.train_files": quoted("${run_dir}/data/train.parquet"),
        "data.val_files": quoted("${run_dir}/data/test.parquet"),
        "data.val_max_samples": -1,
        "actor_rollout_ref.model.path": quoted("${run_dir}/base_model"),
    }
    # the file may have what a user adds with +, such as attn_implementation
    known = ["+" + word if re.match(r"\+[^+=]*\.", word) else word for word in real]
    return [*known, CLUSTER, *forbidden_words(real), *(f"{key}={value}" for key, value in values.items())]


def forbidden_words(real: list[str]) -> list[str]:
    """What `cluster=rehearsal` sets and a word names, once more as a word: words beat any file, the last beats all."""
    named = [word.lstrip("+~").partition("=")[0] for word in real]
    return [
        f"++{key}={value if str(value).startswith('${') else json.dumps(value)}"
        for key, value in flatten(OmegaConf.to_container(OmegaConf.load(REHEARSAL), resolve=False)).items()
        if any(key == name or key.startswith(name + ".") for name in named)
    ]


def as_written(config: DictConfig) -> dict[str, Any]:
    """Flat values, interpolations as they are written: what merely follows another key does not count as different."""
    return flatten(OmegaConf.to_container(config, resolve=False))


def account(recipe: DictConfig, rehearsed: DictConfig) -> dict[str, dict[str, Any]]:
    """What differs between the recipe and its rehearsal, by reason; `unexpected` must stay empty."""
    forbidden = keys_of(REHEARSAL)
    sections = {"scaled": SCALED, "replaced": REPLACED, "forbidden": {*forbidden, *_above(forbidden)}}
    found: dict[str, dict[str, Any]] = {name: {} for name in (*sections, "unexpected")}
    for key, pair in differences(as_written(recipe), as_written(rehearsed)).items():
        if not any(key == name or key.startswith(name + ".") for name in OWN):
            found[next((name for name, keys in sections.items() if key in keys), "unexpected")][key] = pair
    return found


def _above(keys: set[str]) -> set[str]:
    """Sections that keys lie in directly: an empty one is a leaf until something is put there."""
    return {key.rsplit(".", 1)[0] for key in keys if "." in key}


def phases(words: list[str], config: DictConfig, kind: str, positions: int) -> list[Phase]:
    """Every command of a rehearsal, in order; `kind` and `positions` are the real model's."""
    run_dir = Path(config.run_dir)
    model, data, exported = run_dir / "base_model", run_dir / "data", run_dir / "model"

    def python(*arguments: object) -> list[str]:
        return [sys.executable, "-m", *(str(argument) for argument in arguments)]

    made = ["--architecture", kind if kind in ON_CPU else STAND_IN, "--positions", positions]
    source = [
        "arithmetic",
        f"--out={data}",
        "--template=none",
        "--min_value=10",
        "--max_value=30",
        "--train_rows=300",
        "--test_rows=8",
    ]
    checkpoints = Path(config.trainer.default_local_dir)
    return [
        Phase("data", python("data_prep.prepare", *source), data / "train.parquet", "additions"),
        Phase(
            "model",
            python("data_prep.rehearsal_model", f"--out={model}", *made),
            model,
            "few, narrow layers of its architecture",
            QUIET,
        ),
        Phase("train", python("recipe.main_dapo", *words), checkpoints / "global_step_2", "2 steps, each saved"),
        Phase(
            "resume",
            python("recipe.main_dapo", *words, "trainer.total_training_steps=3"),
            checkpoints / "global_step_3",
            "a third step in a new process",
        ),
        Phase("export", python("recipe.export", "--checkpoint", checkpoints, "--out", exported), exported, "merged"),
        Phase(
            "evaluate",
            python(*evaluation_words(config, exported, "after"), "--n=2"),
            exported,
            "served and sampled",
        ),
    ]


def fresh(run_dir: Path) -> None:
    """Make the folder, or empty what an earlier rehearsal left: its checkpoints would count as trained already.

    Raises:
        ConfigError: the folder holds something, and no rehearsal made it.
    """
    run_dir.mkdir(parents=True, exist_ok=True)
    found, marker = list(run_dir.iterdir()), run_dir / MARKER
    if found and not marker.is_file():
        raise ConfigError(
            "this rehearsal has no place:", [f"{run_dir} was not made by a rehearsal: move it away, or set output_dir"]
        )
    marker.touch()
    for path in found:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path != marker:
            path.unlink()


def rehearse(words: list[str], console: Console) -> None:
    """Run every phase; raises PhaseFailed with the end of its log."""
    real = [word for word in words if word != CLUSTER]
    recipe = compose(real)
    rehearsed = rehearsal_words(real, recipe)
    config = compose(rehearsed)
    found = account(recipe, config)
    kind, positions = architecture(recipe)
    run_dir = Path(config.run_dir)
    fresh(run_dir)
    if kind not in ON_CPU:
        console.print(
            f"model       {kind} is not known to run on this CPU stack: the rest is rehearsed on {STAND_IN}",
            highlight=False,
        )
    console.print(
        "tokenizer   one token a byte, not the recipe's, whose vocabulary would take minutes to teach; its chat "
        "template and the lengths of real prompts are for data_prep.prepare --tokenizer to see",
        highlight=False,
    )
    for reason, title in (("scaled", "scaled down"), ("forbidden", "not possible on a CPU"), ("replaced", "replaced")):
        for key, (real_value, value) in found[reason].items():
            console.print(
                f"{title:<22}{key}: {json.dumps(real_value)} -> {json.dumps(value)}", highlight=False, markup=False
            )
    same = len(as_written(recipe)) - sum(map(len, found.values()))
    console.print(f"as on the cluster     the other {same} keys", highlight=False)
    seconds = {}
    for phase in phases(rehearsed, config, kind, positions):
        started = time.monotonic()
        console.print(f"{phase.name:<12}{phase.hint} ...", highlight=False)
        run_phase(phase.command, run_dir / "logs" / f"{phase.name}.log", lambda: None, phase.environment)
        seconds[phase.name] = round(time.monotonic() - started, 1)
        console.print(f"{phase.name:<12}{seconds[phase.name]:.0f} s", highlight=False)
    report = {"architecture": kind, "rehearsed_on": kind if kind in ON_CPU else STAND_IN, "seconds": seconds, **found}
    write_text_atomic(run_dir / "rehearsal.json", json.dumps(report, indent=1) + "\n")
    console.print(f"the whole recipe ran; {run_dir / 'rehearsal.json'}", highlight=False)


def main() -> None:
    """Command line."""
    with supervised("The same command starts anew."):
        rehearse(sys.argv[1:], Console(soft_wrap=True))


if __name__ == "__main__":
    main()
