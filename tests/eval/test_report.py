"""The report: what it shows of whole, running, killed and hostile runs. tests/e2e/test_report_page.py looks at it."""

import json
import math
import re
import subprocess
import sys
import warnings
from html.parser import HTMLParser
from pathlib import Path

import pytest

from eval.report import curves, tables
from eval.report.__main__ import main
from eval.report.config import differences, without_secrets
from eval.report.drawings import paper_curves, step_parts, styles
from eval.report.figures import Plotted, lines
from eval.report.health import firings, spans
from eval.report.page import render, told_apart, write_report
from eval.report.read import read_evaluations, read_run
from eval.report.responses import choose, readable
from tests.eval.runs import HOSTILE, evaluation, example, make_run

ROOT = Path(__file__).parents[2]


class Page(HTMLParser):
    """Elements, attributes and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.labels, self.words = [], [], []
        self.feed(text)
        self.text = re.sub(r"\s+", " ", " ".join(self.words))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.append((tag, values))
        if tag == "svg":
            self.labels.append(values.get("aria-label", ""))

    def handle_data(self, data):
        self.words.append(data)

    def named(self, tag):
        return [values for name, values in self.tags if name == tag]


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    folder = tmp_path_factory.mktemp("single")
    page = write_report([read_run(make_run(folder / "run"))], folder / "out")
    return page.parent, Page(page.read_text())


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair")
    first = make_run(folder / "a", steps=6)
    second = make_run(
        folder / "b", steps=6, name="tiny-naive_grpo-seed1", config=[("actor_rollout_ref.actor.clip_ratio_high", 0.2)],
        change=lambda step, data: data | {"sampling/truncated_share/before_filter": 0.5},
    )  # fmt: skip
    runs = [read_run(first), read_run(second)]
    return runs, Page(render(runs, [], []))


def test_page_needs_nothing_else_and_runs_nothing(single):
    _, page = single
    for tag in ("script", "link", "iframe", "object", "img"):
        assert page.named(tag) == []
    style = next(text for text in page.words if "--paper" in text)
    assert "url(" not in style
    assert "@import" not in style
    targets = [v for _, values in page.tags for k, v in values.items() if k in ("href", "src", "xlink:href")]
    assert targets
    assert all(target.startswith("#") for target in targets)
    (policy,) = [m["content"] for m in page.named("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")


def test_every_figure_says_what_it_shows_and_lies_beside_as_png(single):
    out, page = single
    pictures = {path.stem for path in out.glob("*.png")}
    assert len(pictures) == len(page.labels) >= 15
    assert all(label.count(" ") > 8 for label in page.labels)
    for name in ("response_length", "reward", "entropy", "generation_probability", "held_out_aime"):
        assert name in pictures
    assert any("Response length, tokens, by training step. 320 at step 1, 700 at step 20" in t for t in page.labels)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in out.glob("*.png"))


def test_ids_in_the_page_are_unique(single):
    _, page = single
    ids = [values["id"] for _, values in page.tags if "id" in values]
    assert len(ids) == len(set(ids))


def test_figures_take_their_colours_from_the_page(single):
    out, _ = single
    drawn = re.findall(r"<svg.*?</svg>", (out / "index.html").read_text(), flags=re.S)
    assert drawn
    assert not any(re.search(r"(fill|stroke): #", svg) for svg in drawn)


def test_numbers_of_the_run_are_on_the_page(single):
    _, page = single
    for text in (
        "before 0.250 0.200 to 0.300 40 x 4 0.875 0.625 2.0% 1.0%",
        "gain +0.500 +0.500 to +0.500",
        "No rule fires over 20",
    ):
        assert text in page.text
    assert "train 60 s, 3.0 GB" in page.text
    assert "all 120 s, 8.1 GB" in page.text
    assert "tokens generated 210,000 tokens not trained on 21,000" in page.text
    assert "trained 20 of 20 steps" in page.text
    assert "commit 0123456789ab-dirty" in page.text


def test_twenty_responses_of_all_kinds_with_gold_pred_and_verdict(single):
    _, page = single
    assert len(page.named("details")) == 20
    for kind in ("right", "wrong", "truncated", "filtered"):
        assert sum(values["class"].endswith(kind) for values in page.named("details")) == 5
    assert "wrong; group dropped: all_wrong, 50% of its group right; reward -1.00" in page.text
    assert "wrong, cut at the length limit; reward -1.00" in page.text
    assert "gold 2 , pred 2" in page.text


def test_hostile_text_is_text(single):
    _, page = single
    assert "<script>console.error('run me')</script>" in page.text
    assert "\x1b" not in page.text
    assert "\u202e" not in page.text
    assert "characters left out" in page.text


def test_several_runs_side_by_side(pair):
    runs, page = pair
    for drawing in paper_curves(runs):
        assert "tiny-dapo-seed1" in drawing.alt
        assert "tiny-naive_grpo-seed1" in drawing.alt
        assert ">tiny-dapo" in drawing.svg  # in the legend
    assert "actor_rollout_ref.actor.clip_ratio_high 0.28 0.2" in page.text
    assert "train_files" not in page.text  # only the run's own folder differs in it
    assert len(page.named("details")) == 20
    assert "Truncated answers at the last step; steps 5 to 6" in page.text
    assert "No rule fires over 6 steps" in page.text


def test_secrets_are_hidden(pair, tmp_path):
    runs, page = pair
    assert "sk-planted" not in page.text + str(runs)
    run = read_run(make_run(tmp_path / "run", steps=1))
    assert run.config["secrets.api_key"] == "(hidden)"
    assert run.config["secrets.max_tokens"] == 64


@pytest.mark.parametrize(
    "key", ["wandb.api_key", "HF_TOKEN", "a.hub_token", "x.password", "aws.secret_key", "b.token", "api-keys"]
)
def test_keys_that_name_a_secret(key):
    assert without_secrets({key: "x"}) == {key: "(hidden)"}


@pytest.mark.parametrize("key", ["actor.ppo_max_token_len_per_gpu", "data.max_tokens", "tokenizer", "a.token_level"])
def test_keys_that_only_sound_like_one(key):
    assert without_secrets({key: "x"}) == {key: "x"}


def test_killed_run_reports_what_it_has(tmp_path):
    folder = make_run(tmp_path / "run", steps=3, config=[("trainer.total_training_steps", 9)])
    for name in ("eval/after.summary.json", "eval/after.jsonl", "loop.json"):
        (folder / name).unlink()
    with (folder / "metrics" / "000.jsonl").open("a") as f:
        f.write('{"step": 4, "da')
    with (folder / "examples" / "3.jsonl").open("a") as f:
        f.write('{"step": 3, "ki')
    page = Page(render([read_run(folder)], [], []))
    assert "3 of 9 steps, going on or stopped; last wrote 20" in page.text
    assert "evaluated only before or only after" in page.text


def test_run_that_has_only_just_begun(tmp_path):
    (tmp_path / "run" / "metrics").mkdir(parents=True)
    page = Page(write_report([read_run(tmp_path / "run")], tmp_path / "out").read_text())
    for text in ("no step logged yet", "Not judged", "No evaluation yet", "Nothing logged yet", "No response was kept"):
        assert text in page.text


def test_report_in_place_of_a_file_is_refused(tmp_path):
    (tmp_path / "out").touch()
    with pytest.raises(ValueError, match="is a file: name a folder"):
        write_report([read_run(make_run(tmp_path / "run", steps=1))], tmp_path / "out")


def test_preflight_plan_of_the_run_is_shown(tmp_path):
    folder = make_run(tmp_path / "run", steps=1)
    for attempt, text in (("000", "8 rollout steps"), ("001", "20 rollout steps, 80 updates")):
        (folder / "attempts" / attempt).mkdir(parents=True)
        (folder / "attempts" / attempt / "plan.txt").write_text(f"{text}\n")
    assert "20 rollout steps, 80 updates" in Page(render([read_run(folder)], [], [])).text


def test_command_line_prints_the_page(tmp_path):
    (tmp_path / "metrics").mkdir()
    command = [sys.executable, "-m", "eval.report", tmp_path, "--out", tmp_path / "out"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == str(tmp_path / "out" / "index.html")
    assert (tmp_path / "out" / "index.html").is_file()


def test_command_line_names_what_is_no_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["report", str(tmp_path), "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert f"error: {tmp_path} is no run folder" in capsys.readouterr().err


def test_evaluations_in_order_of_the_stages(tmp_path):
    for name in ("after", "warm_start", "before"):
        evaluation(tmp_path, name, 0.5)
    assert [e.name for e in read_evaluations(tmp_path)] == ["before", "warm_start", "after"]


def test_damaged_files_are_named(tmp_path):
    folder = make_run(tmp_path / "run", steps=1)
    (folder / "loop.json").write_text("{")
    with pytest.raises(ValueError, match=r"loop\.json is damaged"):
        read_run(folder)


def test_health_uses_the_thresholds_of_the_run(tmp_path):
    run = read_run(make_run(tmp_path / "run", config=[("health.truncated", 0.01), ("health.window", 3)]))
    (found,) = firings(run)
    assert (found.title, found.spans, found.now) == ("Truncated answers", "3 to 20", True)
    assert "threshold 0.01" in found.text


def test_health_shows_a_gradient_that_is_no_number_as_the_run_logged_it(tmp_path):
    folder = make_run(tmp_path / "run", steps=4)
    log = next((folder / "metrics").glob("*.jsonl"))
    lines = [json.loads(line) for line in log.open()]
    lines[2]["data"] |= {"actor/grad_norm": math.inf, "health/gradient_spike": 1.0}
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (found,) = [firing for firing in firings(read_run(folder)) if firing.title == "Gradient spike"]
    assert (found.spans, found.now) == (str(lines[2]["step"]), False)
    assert "gradient norm nan" in found.text


def test_spans_join_steps_that_follow_each_other():
    assert spans([2, 4, 6, 9], [1, 2, 4, 6, 8, 9]) == "2 to 6, 9"


def test_differences_leave_the_runs_own_names_out():
    a, b = ({"run_dir": f"/r/{n}", "x": f"/r/{n}/data", "y": n} for n in (1, 2))
    assert differences([a, b | {"z": None}], ["", ""]) == {"y": ["1", "2"], "z": ["(absent)", "null"]}


def test_seeds_of_one_recipe_look_the_same_and_equal_names_are_told_apart(tmp_path):
    names = ["dapo-seed1", "grpo-seed1", "dapo-seed2", "dapo-seed1"]
    runs = [read_run(make_run(tmp_path / f"run{i}", steps=1, name=name)) for i, name in enumerate(names)]
    assert styles(runs) == [0, 1, 0, 0]
    assert [run.name for run in told_apart(runs)] == [
        "dapo-seed1 (run0)", "grpo-seed1", "dapo-seed2", "dapo-seed1 (run3)",
    ]  # fmt: skip


def test_parts_of_a_step_add_up():
    steps = {1: {"timing_s/step": 10.0, "timing_s/gen": 4.0, "timing_s/testing": 2.0, "timing_s/update_actor": 3.0}}
    parts = step_parts(steps)
    assert parts == {"rollout and sampling": [4.0], "update": [3.0], "validation": [2.0], "other": [3.0]}


def test_choice_fills_up_from_other_kinds(tmp_path):
    folder = make_run(tmp_path / "run")
    responses = read_run(folder).responses
    few = [r for r in responses if r.kind != "filtered"] + [r for r in responses if r.kind == "filtered"][:1]
    chosen = choose(few, 20)
    assert len(chosen) == 20
    assert sum(r.kind == "filtered" for r in chosen) == 1
    assert choose(few, 20) == chosen
    assert {r.where for r in chosen} >= {"step 20"}


def test_rollout_dumps_stand_in_where_no_examples_were_kept(tmp_path):
    folder = make_run(tmp_path / "run", steps=1)
    (folder / "examples" / "1.jsonl").unlink()
    (folder / "rollouts").mkdir()
    row = {"input": "1+1=?", "output": "2", "gts": "2", "score": 1.0, "step": 1}
    (folder / "rollouts" / "1.jsonl").write_text(json.dumps(row) + "\n")
    (response,) = read_run(folder).responses
    assert (response.kind, response.prompt, response.pred) == ("right", "1+1=?", "(not recorded)")


def test_separators_of_unicode_do_not_cut_a_line(tmp_path):
    folder = make_run(tmp_path / "run", steps=1)
    text = "a\u2028b\u2029c\u0085d\x0be"
    row = example(1, "right", response=text)
    dump = json.dumps(row, ensure_ascii=False)
    torn = dump[:20]
    (folder / "examples" / "1.jsonl").write_text(f"{dump}\n{torn}\n{dump}\n{torn}", encoding="utf-8")
    for path in (folder / "eval").glob("*.jsonl"):
        rows = [json.loads(line) | {"text": text} for line in path.open()]
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    run = read_run(folder)
    assert [response.response for response in run.responses] == [text] * 2
    assert run.gain is not None


def test_readable_keeps_line_ends_and_shows_control_characters():
    assert readable("a\nb\tc\x00\x1b") == "a\nb\tc\u2400\u241b"
    assert readable("\ud800") == "?"
    assert readable("\x9b2J") == "\N{REPLACEMENT CHARACTER}2J"  # one byte of it clears a terminal
    assert "<script>" in readable(HOSTILE)


def test_a_curve_takes_the_first_key_that_is_there():
    line = curves.Line("", ("a", "b"))
    assert curves.series({1: {"b": 1.0}, 2: {"a": 2.0, "b": 3.0}}, line) == ([2], [2.0])
    assert curves.series({1: {"b": 1.0}}, line) == ([1], [1.0])


def test_throughput_leaves_the_first_step_out(tmp_path):
    run = read_run(
        make_run(tmp_path / "run", steps=3, change=lambda s, d: d | {"timing_s/step": 100.0 if s == 1 else 10})
    )
    assert tables.throughput([run]).rows[0] == ["seconds a step", "10.0"]
    assert tables.throughput([run]).rows[2][1] == "500"


def test_evaluations_that_were_sampled_otherwise_have_no_gain(tmp_path):
    folder = make_run(tmp_path / "run", steps=3)
    assert read_run(folder).gain is not None
    evaluation(folder / "eval", "after", 0.75, temperature=0.6)
    run = read_run(folder)
    assert run.gain is None
    assert "before and after cannot be compared: temperature: 1.0 and 0.6" in run.gaps


def test_the_validation_before_the_first_step_is_no_step(tmp_path):
    folder = make_run(tmp_path / "run", steps=3)
    first = {"step": 0, "data": {"val-core/aime/acc/mean@4": 0.1}}
    metrics = folder / "metrics" / "000.jsonl"
    metrics.write_text(json.dumps(first) + "\n" + metrics.read_text())
    assert "No rule fires over 3 steps" in write_report([read_run(folder)], tmp_path / "out").read_text()


def test_a_legend_of_many_runs_leaves_the_curves_their_room():
    names = [f"ablation_cpu-overlong_filtering-{i}, after the filter" for i in range(18)]
    plotted = [Plotted(name, name, [1, 2], [0.1, 0.2], i) for i, name in enumerate(names)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib's, when axes have collapsed
        lines("accuracy", "Accuracy", "share", plotted)
