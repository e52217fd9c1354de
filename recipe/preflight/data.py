"""Rules on the data files: there, with a card, gradable, with enough rows, each problem once, prompts that fit."""

from collections.abc import Iterator

from omegaconf import DictConfig

from data_prep.card import card_path
from recipe.preflight.data_facts import KEYS, LOOKED_AT, DataFacts, files, read

_FEW = 0.01  # share of repeated rows that training may pass with a warning


class Data:
    """Facts of the training and validation files; `problems` are of files that are missing or cannot be read."""

    def __init__(self, config: DictConfig):
        self.problems: list[str] = []
        self.facts: dict[str, list[DataFacts]] = {key: [] for key in KEYS}
        for key in KEYS:
            for path in files(config, key):
                if path.is_dir():
                    self.problems.append(
                        f"data.{key}={path} is a folder: name the parquet file in it, or a list of files"
                    )
                    continue
                if not path.is_file():
                    self.problems.append(
                        f"data.{key}={path} is missing: write it with python -m data_prep.prepare, or name another file"
                    )
                    continue
                try:
                    self.facts[key].append(read(path))
                except (ValueError, OSError) as error:  # a bad gold, a foreign card, or no parquet at all
                    self.problems.append(f"data.{key}: {error}")

    def rows(self, config: DictConfig, key: str) -> int | None:
        """Rows that a run sees: all files together, up to `*_max_samples`; None when a file is not here."""
        found = self.facts[key]
        if len(found) < len(files(config, key)):
            return None
        limit = config.data.get("train_max_samples" if key == "train_files" else "val_max_samples", -1)
        total = sum(f.rows for f in found)
        return min(total, limit) if limit and limit > 0 else total


def enough_rows(config: DictConfig, data: Data) -> Iterator[str]:
    """A batch of different prompts exists, and a step may reach it within its bounds."""
    rows, batch = data.rows(config, "train_files"), config.data.train_batch_size
    if rows is None:
        return
    names = config.data.train_files
    if rows == 0:
        yield f"data.train_files={names} has no rows: prepare it again"
    elif rows < batch:
        yield (
            f"data.train_batch_size={batch} prompts is more than the {rows} rows of data.train_files={names}: verl "
            f"counts rows // batch = 0 steps a pass and divides by it; use at most {rows}, or more data"
        )
    elif (steps := rows // batch * config.trainer.total_epochs) < config.trainer.total_training_steps:
        yield (
            f"trainer.total_epochs={config.trainer.total_epochs} ends the run after {steps} steps, before "
            f"trainer.total_training_steps={config.trainer.total_training_steps}; leave it at its default, 1000000"
        )


def reachable(config: DictConfig, data: Data) -> Iterator[str]:
    """A step's bounds allow for at least one batch."""
    rows, batch = data.rows(config, "train_files"), config.data.train_batch_size
    bounds = config.trainer.v1.sampler.sampler_kwargs.bounds
    prefix = "trainer.v1.sampler.sampler_kwargs.bounds"
    if bounds.max_passes is not None and rows and batch > bounds.max_passes * rows:
        yield (
            f"data.train_batch_size={batch} prompts is more than {prefix}.max_passes={bounds.max_passes} times the "
            f"{rows} rows of data.train_files={config.data.train_files}: no step could be filled; use at most "
            f"{int(bounds.max_passes * rows)}, more passes or more data"
        )
    if bounds.max_generated is not None and batch > bounds.max_generated:
        yield (
            f"{prefix}.max_generated={bounds.max_generated} prompts a step is less than data.train_batch_size={batch}: "
            "no step could be filled; the published run has 30 times the batch"
        )


def repeated_prompts(config: DictConfig, data: Data) -> Iterator[str]:
    """Each problem stands in a file once: n samples are of one row."""
    for key, n_key, n, allowed in (
        ("train_files", "rollout.n", config.actor_rollout_ref.rollout.n, _FEW),
        ("val_files", "rollout.val_kwargs.n", config.actor_rollout_ref.rollout.val_kwargs.n, 0.0),
    ):
        for facts in data.facts[key]:
            looked = min(facts.rows, LOOKED_AT)
            if n > 1 and facts.repeated > allowed * looked:
                yield (
                    f"data.{key}={facts.path} repeats prompts ({facts.repeated} of the first {looked} rows) while "
                    f"actor_rollout_ref.{n_key}={n} asks for several samples of each row; prepare it with data_prep, "
                    "which keeps each problem once" + (f", or set {n_key}=1" if key == "val_files" else "")
                )


def cards(config: DictConfig, data: Data) -> Iterator[str]:
    """Each file has its card: without one nobody knows the prompts' lengths and format."""
    for key in KEYS:
        for facts in data.facts[key]:
            if facts.card is None and not config.preflight.allow_missing_cards:
                yield (
                    f"data.{key}={facts.path} has no card ({card_path(facts.path).name}) beside it, so prompt lengths "
                    "and answer format cannot be checked: write file and card with python -m data_prep.prepare (its "
                    "source `file` takes a table of your own; --keep_repeats copies DAPO's own layout row by row), or "
                    "set preflight.allow_missing_cards=true"
                )


def prompt_lengths(config: DictConfig, data: Data) -> Iterator[str]:
    """The longest prompt fits: verl cuts longer ones on the left, instruction first, whatever `truncation` says."""
    limit = config.data.max_prompt_length
    for facts in data.facts["train_files"] + data.facts["val_files"]:
        tokens = facts.card.content.get("tokens") if facts.card else None
        if tokens and tokens["max"] > limit and not config.data.filter_overlong_prompts:
            yield (
                f"data.max_prompt_length={limit} is less than the longest prompt of {facts.path}, {tokens['max']} "
                "tokens by its card: verl 0.9.1 would cut it on the left; raise it, or prepare with "
                f"--max_prompt_tokens {limit}"
            )


def prompt_format(config: DictConfig, data: Data) -> Iterator[str]:
    """Prompt and reward speak of the same answer format."""
    for facts in data.facts["train_files"] + data.facts["val_files"]:
        template = facts.card.template if facts.card else "none"
        if template != "none" and template != config.answer_format:
            yield (
                f"answer_format={config.answer_format}, but the prompts of {facts.path} ask for {template}: right "
                f"answers would score as wrong; set answer_format={template}, or prepare with --template "
                f"{config.answer_format}"
            )


def notes(config: DictConfig, data: Data) -> Iterator[str]:
    """What a user should know and may accept."""
    for key in KEYS:
        for facts in data.facts[key]:
            if facts.card is None:
                yield f"data.{key}={facts.path} has no card beside it: prompt lengths and answer format are not known"
            if facts.card and not facts.card.content.get("tokens") and not config.data.filter_overlong_prompts:
                yield (
                    f"the card of {facts.path} has no prompt lengths: verl cuts a prompt of more than "
                    f"data.max_prompt_length={config.data.max_prompt_length} tokens on the left, with a warning; "
                    "prepare with --tokenizer to have them measured"
                )
            if facts.card and facts.card.content.get("warnings"):
                yield f"the card of {facts.path} warns: {'; '.join(facts.card.content['warnings'])}"
            if key == "train_files" and 0 < facts.repeated <= _FEW * min(facts.rows, LOOKED_AT):
                yield f"data.{key}={facts.path} repeats {facts.repeated} prompts of its first {LOOKED_AT} rows"


RULES = (enough_rows, reachable, repeated_prompts, cards, prompt_lengths, prompt_format)
