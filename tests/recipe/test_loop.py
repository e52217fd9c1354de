import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from omegaconf import OmegaConf

from data_prep.prepare import build_parser
from recipe.checkpoints import write_state
from recipe.compose import compose
from recipe.errors import ConfigError
from recipe.leftovers import remove_segments, segments
from recipe.loop.__main__ import load
from recipe.loop.phases import Phase, Record, phases, quoted
from recipe.loop.progress import LogFollower, MetricsFollower, step_line
from recipe.loop.summary import summarise
from recipe.run_identity import identity
from tests.recipe.test_checkpoints import make

ROOT = Path(__file__).parents[2]


def phase(tmp_path, command=("a",)):
    return Phase("data", list(command), tmp_path / "out", "hint")


def test_phases_of_the_tiny_recipe_in_order(tmp_path):
    config = compose([f"run_dir={tmp_path}", "trainer.total_training_steps=7", "seed=3"])
    found = {p.name: p for p in phases(config, ["seed=3"])}
    assert list(found) == ["data", "base_model", "evaluate_before", "train", "export", "evaluate_after", "report"]
    assert "--seed=3" in found["data"].command
    assert found["train"].command[-2:] == ["seed=3", f"run_dir='{tmp_path}'"]
    assert found["export"].command[-4:-2] == ["--checkpoint", f"{tmp_path}/checkpoints/global_step_7"]
    before, after = found["evaluate_before"].command, found["evaluate_after"].command
    different = [(b, a) for b, a in zip(before, after, strict=True) if b != a]
    assert [b.rsplit("/", 1)[1] for b, _ in different] == ["base_model", "server_before.log", "before.jsonl"]


def test_evaluations_render_the_chat_template_as_the_rollouts_do(tmp_path):
    config = compose([f"run_dir={tmp_path}", "+data.apply_chat_template_kwargs.enable_thinking=true"])
    commands = {p.name: p.command for p in phases(config, [])}
    for name in ("evaluate_before", "evaluate_after"):
        at = commands[name].index("--chat_template_kwargs")
        assert commands[name][at + 1] == '{"enable_thinking": true}'
    plain = phases(compose([f"run_dir={tmp_path}"]), [])
    assert not any("--chat_template_kwargs" in p.command for p in plain)


@pytest.mark.parametrize("experiment", ["qwen2.5_0.5b_single_gpu", "qwen3.5_4b"])
def test_prompts_of_a_model_that_is_there_are_measured_as_they_are_sent(experiment):
    """The other loops make their model after their data."""
    config = compose([f"experiment={experiment}", "cluster=single_node"])
    prepare, *words = OmegaConf.to_container(config.loop.data, resolve=True)
    assert prepare == "data_prep.prepare"
    options = build_parser().parse_args(words)
    assert options.tokenizer == config.actor_rollout_ref.model.path
    assert options.chat_template_kwargs == OmegaConf.to_container(config.data.apply_chat_template_kwargs)


def test_warm_start_is_a_stage_of_its_own(tmp_path):
    config = compose(["experiment=smollm2_135m", f"run_dir={tmp_path}"])
    found = {p.name: p for p in phases(config, [])}
    assert list(found)[:5] == ["data", "base_model", "evaluate_base", "warm_start", "evaluate_before"]
    assert found["base_model"].output.parent == tmp_path / "pretrained"
    assert found["warm_start"].output.parent == tmp_path / "base_model"
    assert str(tmp_path / "pretrained") in found["evaluate_base"].command
    assert str(tmp_path / "base_model") in found["evaluate_before"].command


def test_warm_start_of_no_model_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"loop\.pretrained"):
        load([f"run_dir={tmp_path}", "loop.warm_start=[data_prep.warm_start]"])


def test_model_that_is_there_already_is_not_built(tmp_path):
    config = compose([f"run_dir={tmp_path}", "loop.base_model=null"])
    assert "base_model" not in [p.name for p in phases(config, [])]


def test_record_counts_all_attempts_and_survives_a_restart(tmp_path):
    first = Record(tmp_path / "loop.json")
    first.add(phase(tmp_path), 2.0)
    assert not first.done(phase(tmp_path))
    (tmp_path / "out").touch()
    second = Record(tmp_path / "loop.json")
    second.add(phase(tmp_path), 3.0)
    second.finish(phase(tmp_path))
    third = Record(tmp_path / "loop.json")
    assert third.done(phase(tmp_path))
    assert third.seconds(phase(tmp_path)) == 5.0


def test_phase_is_not_done_with_another_command_or_without_its_output(tmp_path):
    record = Record(tmp_path / "loop.json")
    (tmp_path / "out").touch()
    record.add(phase(tmp_path), 1.0)
    record.finish(phase(tmp_path))
    assert not record.done(phase(tmp_path, ["b"]))
    (tmp_path / "out").unlink()
    assert not record.done(phase(tmp_path))


@pytest.mark.parametrize("name", ["a b", "jürgen", "x=1", "a,b(c)", "it's", "back\\slash"])
def test_any_folder_name_survives_hydra(name):
    config = compose([f"run_dir={quoted('/tmp/' + name)}", "trainer.experiment_name=e"])
    assert config.run_dir == f"/tmp/{name}"


def test_what_follows_a_changed_phase_is_done_again(tmp_path):
    record = Record(tmp_path / "loop.json")
    done = [Phase(name, [name], tmp_path / name, "") for name in ("data", "train", "evaluate_after")]
    for p in done:
        p.output.touch()
        record.add(p, 1.0)
        record.finish(p)
    assert record.todo(done) == []
    changed = [done[0], Phase("train", ["train", "more"], done[1].output, ""), done[2]]
    assert record.todo(changed) == changed[1:]


def test_damaged_record_names_its_file(tmp_path):
    (tmp_path / "loop.json").write_text("{bad")
    with pytest.raises(ValueError, match=r"loop\.json is damaged"):
        Record(tmp_path / "loop.json")


def test_phase_that_wrote_nothing_is_an_error(tmp_path):
    record = Record(tmp_path / "loop.json")
    record.add(phase(tmp_path), 1.0)
    with pytest.raises(ValueError, match="did not write"):
        record.finish(phase(tmp_path))


def test_step_line_says_what_a_person_wants_to_know():
    line = step_line(
        3,
        40,
        {
            "timing_s/step": 7.25,
            "sampling/acc/before_filter": 0.4375,
            "sampling/kept_groups": 32.0,
            "sampling/generated_groups": 40.0,
            "val-core/arithmetic/acc/mean@4": 0.5,
        },
    )
    assert line == "step   3/40    7.2 s  accuracy 0.44  kept 32 of 40 groups  held-out 0.500"


def test_metrics_follower_gives_each_complete_line_once(tmp_path):
    (tmp_path / "000.jsonl").write_text('{"step": 1, "data": {}}\n')
    follower = MetricsFollower(tmp_path)
    assert follower.poll() == []
    with (tmp_path / "001.jsonl").open("w") as f:
        f.write('{"step": 2, "data": {}}\n{"step": 3')
        f.flush()
        assert [e["step"] for e in follower.poll()] == [2]
        f.write(', "data": {}}\n')
    assert [e["step"] for e in follower.poll()] == [3]


def test_log_follower_reports_milestones_of_this_attempt_once(tmp_path):
    log = tmp_path / "train.log"
    log.write_text("Started a local Ray instance\n")
    follower = LogFollower(log)
    assert follower.poll() == []
    with log.open("a") as f:
        f.write("x Started a local Ray instance.\n")
    assert follower.poll() == ["Ray is up"]
    assert follower.poll() == []


PARENT = """
import subprocess, sys, time
from pathlib import Path
from recipe.loop.processes import PhaseFailed, adopt_orphans, run_phase
adopt_orphans()
# a phase that leaves a detached grandchild, as Ray leaves its daemons
child = "import subprocess, sys, time; subprocess.Popen(['sleep', '{mark}'], start_new_session=True); {end}"
try:
    run_phase([sys.executable, "-c", child], Path("{log}"), lambda: None, {{}})
except PhaseFailed as error:
    print("failed:", error)
except KeyboardInterrupt:
    print("interrupted")
"""


def sleepers(mark):
    return [p.pid for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", mark]]


def start(tmp_path, mark, end):
    code = PARENT.format(log=tmp_path / "log", mark=mark, end=end)
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_detached_grandchildren_end_with_the_phase(tmp_path):
    mark = f"3{os.getpid()}"
    output, _ = start(tmp_path, mark, "print('boom'); sys.exit(3)").communicate(timeout=60)
    assert "failed: ended with status 3" in output
    assert "boom" in output
    assert sleepers(mark) == []


def test_segments_in_use_stay_and_abandoned_ones_go():
    old = Path("/dev/shm/psm_old" + str(os.getpid()))
    old.write_bytes(b"x")
    before = segments()
    used = multiprocessing.get_context("spawn").Semaphore()  # mapped before it gets its name
    name = used._semlock.name.replace("/", "sem.")
    abandoned = Path("/dev/shm/psm_abandoned" + str(os.getpid()))
    abandoned.write_bytes(b"x")
    removed = remove_segments(before)
    assert old.exists()
    old.unlink()
    assert abandoned.name in removed
    assert not abandoned.exists()
    assert name not in removed
    assert Path("/dev/shm", name).exists()


def test_interrupt_ends_everything(tmp_path):
    mark = f"4{os.getpid()}"
    parent = start(tmp_path, mark, "time.sleep(300)")
    deadline = time.monotonic() + 30
    while not sleepers(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    for _ in range(6):  # as a person would: one that comes while Python starts a thread is lost
        parent.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            output, _ = parent.communicate(timeout=15)
            break
    assert "interrupted" in output
    assert sleepers(mark) == []


def test_missing_model_ends_before_anything_starts(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "recipe.loop", f"run_dir={tmp_path}/run", "loop.base_model=null",
         f"actor_rollout_ref.model.path={tmp_path}/nowhere"],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert f"{tmp_path}/nowhere is missing" in done.stderr
    assert not (tmp_path / "run" / "logs").exists()


def test_unknown_key_is_refused_by_name(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "recipe.loop", f"run_dir={tmp_path}", "trainer.total_trainning_steps=3"],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "total_trainning_steps" in done.stderr
    assert "Traceback" not in done.stderr


def test_file_in_place_of_the_run_folder_and_a_list_of_data(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError) as error:
        load(["cluster=cpu", f"run_dir={tmp_path}/file", "data.train_files=[a,b]"])
    assert f"{tmp_path}/file is a file" in str(error.value)
    assert "the loop prepares and evaluates one file" in str(error.value)


def test_loop_names_a_changed_setting_before_it_makes_anything_anew(tmp_path):
    load([*(words := ["cluster=cpu", f"run_dir={tmp_path}"])])
    config = compose(words)
    write_state(make(tmp_path / "checkpoints", 3), {"run": identity(config)})
    load([*words, "trainer.total_training_steps=40"])
    with pytest.raises(ConfigError, match=r"optim\.lr: 0\.0002 -> 0\.001.*allow_changed_resume=true"):
        load([*words, "actor_rollout_ref.actor.optim.lr=1e-3"])
    load([*words, "actor_rollout_ref.actor.optim.lr=1e-3", "allow_changed_resume=true"])


def test_loop_names_another_preparation_of_the_data(tmp_path):
    words = ["cluster=cpu", f"run_dir={tmp_path}"]
    write_state(make(tmp_path / "checkpoints", 3), {"run": identity(compose(words))})
    with pytest.raises(ConfigError, match=r"loop\.data"):
        load([*words, "loop.data=[data_prep.prepare,gsm8k]"])


@pytest.mark.parametrize("stage", ["base_model", "warm_start"])
def test_loop_names_another_start_before_it_makes_it(tmp_path, stage):
    words = ["cluster=cpu", "experiment=smollm2_135m", f"run_dir={tmp_path}"]
    write_state(make(tmp_path / "checkpoints", 3), {"run": identity(compose(words))})
    changed = [*words, f"loop.{stage}=[data_prep.other]"]
    with pytest.raises(ConfigError, match=rf"loop\.{stage}: data_prep.* -> data_prep\.other"):
        load(changed)
    load([*changed, "allow_changed_resume=true"])


def test_summary_names_what_the_training_was_made_of_not_what_stands_here_now(tmp_path):
    config = compose(["cluster=cpu", f"run_dir={tmp_path}"])
    for name in ("before", "after"):
        (tmp_path / "eval").mkdir(exist_ok=True)
        found = {"mean": 0.5, "low": 0.4, "high": 0.6, "problems": 4, "samples": 2}
        (tmp_path / f"eval/{name}.summary.json").write_text(json.dumps(found))
    for number, commit in (("000", "old"), ("001", "trained")):
        (tmp_path / "attempts" / number).mkdir(parents=True)
        stamped = {"commit": commit, "versions": {"verl": "0.9.1"}}
        (tmp_path / "attempts" / number / "stamp.json").write_text(json.dumps(stamped))
    summary = summarise(config, Record(tmp_path / "loop.json"), tmp_path)
    assert (summary["commit"], summary["versions"]) == ("trained", {"verl": "0.9.1"})
