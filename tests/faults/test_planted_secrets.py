import base64

from recipe.compose import compose
from recipe.preflight import check_loop, check_recipe
from tests.faults.planted_secrets import job_metadata, loop_words, search
from tests.faults.scratch import Scratch


def test_a_secret_is_found_plain_and_encoded(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.log").write_text("key=planted-4711\n")
    (tmp_path / "b.bin").write_bytes(b"\x00" + base64.b64encode(b"planted-4712"))
    (tmp_path / "c.txt").write_text("nothing")
    count, found = search([tmp_path], {"A": "planted-4711", "B": "planted-4712", "C": "planted-4713"})
    assert count == 3
    assert sorted(found) == [f"A in {tmp_path}/logs/a.log", f"B in {tmp_path}/b.bin"]


def test_the_run_that_is_searched_is_a_whole_loop_with_every_tracker(tmp_path):
    config = compose(loop_words(Scratch(tmp_path, "secrets")))
    assert check_recipe(config) + check_loop(config) == []
    assert config.loop.base_model is None
    assert list(config.trainer.logger) == ["console", "file", "wandb", "tensorboard"]


def test_a_cluster_that_is_known_or_gone_is_not_asked():
    assert job_metadata({"raylet --gcs-address=127.0.0.1:1 --x", "python"}, {"127.0.0.1:1"}) == {}
