"""A recipe that has what it reads."""

import pytest

from tests.recipe.inputs import write_data
from tests.recipe.variants import variant


@pytest.fixture
def recipe(tmp_path):
    """A tiny recipe whose data exist: 40 training rows, 4 validation rows, both with cards."""

    def make(*overrides, train=None, val=None, card=None):
        card = {} if card is None else card
        write_data(tmp_path / "train.parquet", train or [f"p{i}" for i in range(40)], card=card)
        write_data(tmp_path / "val.parquet", val or [f"v{i}" for i in range(4)], card=card)
        files = [f"data.train_files={tmp_path}/train.parquet", f"data.val_files={tmp_path}/val.parquet"]
        return variant(f"run_dir={tmp_path}/run", *files, *overrides)

    return make
