import json
import statistics

import pytest

from eval.compare import compare, load, main, refusals

SETTINGS = {
    "model": "before", "problems": 3, "n": 2, "prompt_hash": "p", "data_hash": "d", "temperature": 1.0, "top_p": 0.7,
    "max_tokens": 9, "seed": 0, "chat_template_kwargs": None, "vllm": "0.24.0",
}  # fmt: skip


@pytest.fixture
def side(tmp_path):
    """Write a samples file: one list of verdicts a problem; digests name problems, whatever their order."""

    def write(name, verdicts, digests="abc", grader="reward.strict@1/answer", **settings):
        path = tmp_path / f"{name}.jsonl"
        lines = [
            {"problem": p, "sample": s, "digest": digests[p], "gold": "1", "text": "", "correct": c, "grader": grader}
            for p, row in enumerate(verdicts)
            for s, c in enumerate(map(bool, row))
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        path.with_suffix(".settings.json").write_text(json.dumps(SETTINGS | settings))
        return path

    return write


def test_problems_are_paired_by_what_they_ask_not_by_their_number(side):
    a = side("a", [[0, 0], [1, 1], [1, 0]])
    b = side("b", [[1, 1], [1, 1], [0, 1]], digests="cab", model="after")  # c, a, b
    result = compare(load(a), load(b))
    assert (result["a"], result["b"]) == (0.5, pytest.approx(5 / 6))
    changes = [1.0, -0.5, 0.5]  # a, b, c
    assert result["difference"] == pytest.approx(statistics.mean(changes))
    assert result["standard_error"] == pytest.approx(statistics.stdev(changes) / 3**0.5)
    assert [row["digest"] for row in result["gained"]] == ["a", "c"]
    assert [row["digest"] for row in result["lost"]] == ["b"]
    assert result["low"] <= result["difference"] <= result["high"]


def test_pairing_narrows_the_interval(side):
    """Problems differ much more than models do: a gain on every problem is certain although both averages are not."""
    before = [[i % 10 < d for i in range(10)] for d in range(9)]
    after = [[i % 10 < d + 1 for i in range(10)] for d in range(9)]
    settings = {"digests": "abcdefghi", "problems": 9, "n": 10}
    result = compare(load(side("a", before, **settings)), load(side("b", after, **settings)))
    assert (result["low"], result["high"]) == (pytest.approx(0.1), pytest.approx(0.1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"top_p": 0.9}, "top_p: 0.7 and 0.9"),
        ({"top_k": -1}, "top_k: not recorded and -1"),  # sampled before they were sent
        ({"repetition_penalty": 1.0}, "repetition_penalty: not recorded and 1.0"),
        ({"max_tokens": 10}, "max_tokens: 9 and 10"),
        ({"prompt_hash": "q"}, "prompt_hash: 'p' and 'q'"),
        ({"data_hash": "q"}, "data_hash"),
        ({"vllm": "0.25.0"}, "vllm: '0.24.0' and '0.25.0'"),
        ({"chat_template_kwargs": {"enable_thinking": True}}, "chat_template_kwargs"),
        ({"grader": "reward.tutorial@1/answer"}, "grader: 'reward.strict@1/answer' and 'reward.tutorial@1/answer'"),
    ],
)
def test_other_settings_are_refused_unless_forced(side, capsys, change, message):
    verdicts = [[0, 0], [1, 1], [1, 0]]
    a, b = str(side("a", verdicts)), str(side("b", verdicts, **change))
    assert main([a, b]) == 2
    refused = capsys.readouterr()
    assert message in refused.err
    assert refused.out == ""
    assert main([a, b, "--force"]) == 0
    assert f"warning: {message}" in capsys.readouterr().out


def test_models_and_seeds_may_differ(side):
    verdicts = [[0, 0], [1, 1], [1, 0]]
    assert not refusals(load(side("a", verdicts)), load(side("b", verdicts, model="x", seed=9, commit="c")))


def test_another_number_of_samples_is_another_setting(side):
    a, b = side("a", [[0], [1], [1]], n=1), side("b", [[0, 0], [1, 1], [1, 0]])
    assert refusals(load(a), load(b)) == ["n: 1 and 2"]


def test_missing_samples_are_refused_unless_allowed(side, capsys):
    a, b = str(side("a", [[0, 0], [1, 1], [1]])), str(side("b", [[0, 0], [1, 1], [1, 0]]))
    assert main([a, b]) == 2
    assert "1 samples are missing in" in capsys.readouterr().err
    assert main([a, b, "--allow_missing"]) == 0
    assert "left out: 1 missing samples of A, 0 of B" in capsys.readouterr().out


def test_files_without_settings_or_of_two_verifiers_are_refused(side, capsys):
    a, b = side("a", [[1]], problems=1, n=1), side("b", [[0]], problems=1, n=1)
    b.with_suffix(".settings.json").unlink()
    assert main([str(a), str(b)]) == 2
    assert "no settings beside" in capsys.readouterr().err
    with a.open("a") as f:
        f.write(json.dumps({**json.loads(a.read_text()), "sample": 1, "grader": "other"}) + "\n")
    assert main([str(a), str(a)]) == 2
    assert f"--regrade {a}" in capsys.readouterr().err


def test_nothing_in_common_is_an_error(side, capsys):
    a, b = side("a", [[1]], digests="a", problems=1, n=1), side("b", [[1]], digests="b", problems=1, n=1)
    assert main([str(a), str(b), "--force"]) == 2
    assert "no problem in common" in capsys.readouterr().err


def test_json_and_table_say_the_same(side, tmp_path, capsys):
    a, b = side("a", [[0, 0], [1, 1], [1, 0]]), side("b", [[1, 1], [1, 1], [0, 0]], model="after")
    assert main([str(a), str(b), "--json", str(tmp_path / "d.json"), "--top", "1"]) == 0
    result, printed = json.loads((tmp_path / "d.json").read_text()), capsys.readouterr().out
    assert main([str(a), str(b), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == result
    assert f"B - A {result['difference']:+.4f}" in printed
    assert result["models"] == ["before", "after"]
    assert "avg@2  A 0.5000  B 0.6667" in printed
    assert "gained 1" in printed
    assert "lost 1" in printed
