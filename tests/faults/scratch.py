"""A place for one run of the shipped tiny recipe: run folder, temporary folder of its own, data and base model."""

import shutil
import tempfile
from pathlib import Path

from tests.benchmarks import sampler
from tests.faults.recipe import SEED


class Scratch:
    """Folders of a run `name` below `folder`, new at every entry; base model and data are shared and kept.

    Processes of the run find their temporary folder in `TMPDIR`; its path is short, since Ray's sockets are in it.
    """

    def __init__(self, folder: Path, name: str):
        self.base, self.run_dir, self.log = folder / "base", folder / name, folder / "starts" / f"{name}.log"

    def __enter__(self) -> "Scratch":
        """Make the folders."""
        sampler.make_base(self.base, SEED)
        shutil.rmtree(self.run_dir, ignore_errors=True)
        self.temporary = Path(tempfile.mkdtemp(prefix="f-"))
        self.environment = {"TMPDIR": str(self.temporary)}
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the temporary folder; what the run wrote stays."""
        shutil.rmtree(self.temporary, ignore_errors=True)

    def leftovers(self) -> list[str]:
        """What is in the temporary folder, two levels deep."""
        paths = [*self.temporary.glob("*"), *self.temporary.glob("*/*")]
        return sorted(str(path.relative_to(self.temporary)) for path in paths)


def shipped_words(scratch: Scratch, steps: int) -> list[str]:
    """Overrides of `recipe.main_dapo`: so many steps of the tiny recipe as it is, without validation or checkpoints."""
    return sampler.words(scratch.base, scratch.run_dir, steps, SEED)
