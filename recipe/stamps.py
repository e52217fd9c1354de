"""What a run was made of: its resolved configuration and local changes. Commit and versions: `reward.provenance`."""

from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from reward.provenance import commit, git, write_text_atomic

RESOLVED_CONFIG = "config.resolved.yaml"


def stamp(config: DictConfig, run_dir: Path) -> None:
    """Write the resolved configuration and, when the tree is dirty, its diff into the run's folder."""
    run_dir.mkdir(parents=True, exist_ok=True)
    write_text_atomic(run_dir / RESOLVED_CONFIG, f"# commit {commit()}\n" + OmegaConf.to_yaml(config, resolve=True))
    if diff := (git("diff", "HEAD") or "").strip():
        write_text_atomic(run_dir / "dirty.diff", diff + "\n")
