"""The command line against a stub server: what it asks, keeps, resumes, refuses and prints."""

import json
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from eval.command import main
from eval.records import key_of
from tests.eval.stub import Stub, completion, identity

ROOT = Path(__file__).parents[2]


def keys(lines):
    return sorted(map(key_of, lines))


def test_published_file_is_thirty_problems_times_32(serve, evaluate, read, summary, shared_data, capsys):
    server = serve()
    assert evaluate("--test_file", shared_data / "aime-2024.parquet", "--base_url", server.url) == 0
    assert keys(read()) == [(p, s) for p in range(30) for s in range(32)]
    assert len(server.stub.hits) == 960  # every sample has its own seed
    found = summary()
    assert found["problems"], found["samples"] == (30, 32)
    assert found["complete"] is True
    assert "avg@32" in capsys.readouterr().out
    body = server.stub.bodies[0]
    assert (body["temperature"], body["top_p"], body["max_tokens"]) == (1.0, 0.7, 20480)
    # as verl samples, whatever the model's generation_config.json would have
    assert (body["top_k"], body["min_p"], body["repetition_penalty"]) == (-1, 0.0, 1.0)


def test_thirty_rows_never_print_at_32(serve, evaluate, summary, make_parquet, capsys):
    assert evaluate("--test_file", make_parquet(30), "--base_url", serve().url) == 0
    printed = capsys.readouterr()
    assert "@32" not in printed.out + printed.err + json.dumps(summary())
    assert "avg@1 " in printed.out
    assert summary()["samples"] == 1


def test_n_asks_for_more_of_the_same_file(serve, evaluate, read, make_parquet):
    server, file = serve(), make_parquet(3, repeats=2)
    assert evaluate("--test_file", file, "--base_url", server.url) == 0
    first = read()
    assert evaluate("--test_file", file, "--base_url", server.url, "--n", 4) == 0
    assert read()[:6] == first
    assert keys(read()) == [(p, s) for p in range(3) for s in range(4)]
    assert set(server.stub.hits.values()) == {1}


def test_result_says_what_it_was_made_of(serve, evaluate, summary, make_parquet):
    arguments = ["--base_url", serve().url, "--n", 2, "--seed", 7, "--system", "Be brief."]
    assert evaluate("--test_file", make_parquet(2), *arguments) == 0
    settings = summary()["settings"]
    assert re.fullmatch(r"reward\.strict@[0-9a-f]{12}/answer", settings["grader"])
    expected = {"model": "/models/tiny", "vllm": "0.24.0", "n": 2, "seed": 7, "temperature": 1.0, "top_p": 0.7}
    assert expected.items() <= settings.items()
    assert all(re.fullmatch(r"[0-9a-f]{16}", settings[name]) for name in ("prompt_hash", "data_hash"))
    assert re.match(r"[0-9a-f]{40}|unknown", settings["commit"])


def test_a_sample_line_has_what_a_person_looks_for(serve, evaluate, read, make_parquet):
    assert evaluate("--test_file", make_parquet(1), "--base_url", serve().url) == 0
    (line,) = read()
    assert {"problem", "sample", "text", "reasoning", "finish_reason", "prompt_tokens", "completion_tokens"} <= set(
        line
    )
    assert {"correct", "pred", "latency_s"} <= set(line)


def test_system_prompt_and_template_arguments_are_sent(serve, evaluate, make_parquet):
    server = serve()
    more = ["--system", "Be brief.", "--chat_template_kwargs", '{"enable_thinking": true}']
    assert evaluate("--test_file", make_parquet(1), "--base_url", server.url, *more) == 0
    (body,) = server.stub.bodies
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert body["chat_template_kwargs"] == {"enable_thinking": True}


@pytest.mark.parametrize(("model", "name"), [(None, "/models/tiny"), ("tiny", "tiny"), ("/elsewhere/tiny", "tiny")])
def test_model_goes_by_its_path_and_by_its_last_folder(serve, evaluate, make_parquet, model, name):
    server = serve()
    assert (
        evaluate("--test_file", make_parquet(1), "--base_url", server.url, *(["--model", model] if model else [])) == 0
    )
    assert server.stub.bodies[0]["model"] == name


def test_model_that_is_not_served_is_refused_with_what_is(serve, evaluate, make_parquet, capsys):
    assert evaluate("--test_file", make_parquet(1), "--base_url", serve().url, "--model", "other") == 2
    assert "--model other is not served; the server serves /models/tiny, tiny" in capsys.readouterr().err


@pytest.fixture
def two_runs(tmp_path, monkeypatch):
    """Folders A/model, which the returned stub serves as eval/llm.py does, and B/model; a link to the first."""
    monkeypatch.chdir(tmp_path)
    for run in "AB":
        (tmp_path / run / "model").mkdir(parents=True)
    (tmp_path / "latest").symlink_to(tmp_path / "A" / "model")
    stub, root = Stub(), str(tmp_path / "A" / "model")
    stub.cards = [{"id": name, "root": root} for name in (root, "model", "A/model")]
    return stub


def test_a_folder_is_not_taken_for_another_of_the_same_name(two_runs, serve, evaluate, make_parquet, capsys):
    assert evaluate("--test_file", make_parquet(1), "--base_url", serve(two_runs).url, "--model", "B/model") == 2
    assert "--model B/model is not served" in capsys.readouterr().err
    assert not two_runs.bodies


@pytest.mark.parametrize(("model", "last"), [("A/model", "A/model"), ("A/../A/model/", "model"), ("latest", "A/model")])
def test_a_folder_goes_by_any_path_to_it(two_runs, serve, evaluate, make_parquet, model, last):
    assert evaluate("--test_file", make_parquet(1), "--base_url", serve(two_runs).url, "--model", model) == 0
    assert two_runs.bodies[0]["model"].endswith(last)


def test_no_server_is_said_in_one_line(evaluate, make_parquet, capsys):
    assert evaluate("--test_file", make_parquet(1), "--base_url", "http://127.0.0.1:9/v1", "--retries", 1) == 2
    assert re.search(r"error: .*127\.0\.0\.1.*attempt 2 of 2", capsys.readouterr().err)


def test_api_key(serve, evaluate, make_parquet, monkeypatch, capsys, tmp_path):
    stub = Stub()
    stub.api_key = "secret-7"
    server, file = serve(stub), make_parquet(1)
    assert evaluate("--test_file", file, "--base_url", server.url) == 2
    assert evaluate("--test_file", file, "--base_url", server.url, "--api_key", "wrong") == 2
    assert "401" in capsys.readouterr().err
    assert evaluate("--test_file", file, "--base_url", server.url, "--api_key", "secret-7") == 0
    assert not [path for path in tmp_path.iterdir() if b"secret-7" in path.read_bytes()]
    monkeypatch.setenv("VLLM_API_KEY", "secret-7")
    assert evaluate("--test_file", file, "--base_url", server.url, out="b.jsonl") == 0


def test_at_most_so_many_at_a_time(serve, evaluate, make_parquet):
    server = serve(Stub(latency=lambda _: 0.1))
    assert evaluate("--test_file", make_parquet(40), "--base_url", server.url, "--concurrency", 5) == 0
    assert server.stub.peak == 5


@pytest.mark.parametrize(
    ("message", "finish_reason", "mode", "correct"),
    [
        ({"content": None}, "stop", "strict", False),
        ({"content": "Answer: 34", "reasoning_content": "Answer: 7"}, "stop", "strict", True),
        ({"content": None, "reasoning_content": "Answer: 34"}, "stop", "strict", True),
        ({"content": "", "reasoning": "Answer: 34"}, "stop", "strict", True),
        ({"content": None, "reasoning_content": "Answer: 34"}, "length", "strict", False),
        ({"content": None, "reasoning_content": "Answer: 34"}, "length", "tutorial", True),
    ],
)
def test_what_is_graded_of_a_reasoning_models_answer(
    serve, evaluate, read, make_parquet, message, finish_reason, mode, correct
):
    server = serve(Stub(fault=lambda request, body, before: completion(finish_reason=finish_reason, **message)))
    assert evaluate("--test_file", make_parquet(1), "--base_url", server.url, "--mode", mode) == 0
    (line,) = read()
    assert line["correct"] is correct
    assert line["text"] == (message["content"] or "")
    assert line["reasoning"] == (message.get("reasoning_content") or message.get("reasoning"))


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--test_file", "f.parquet", "--concurrency", "0"],
        ["--test_file", "f.parquet", "--chat_template_kwargs", "{enable_thinking: true}"],
        ["--test_file", "f.parquet", "--chat_template_kwargs", "[1]"],
        ["--regrade"],
    ],
)
def test_wrong_options_end_at_once(arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert "error" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--retries", "-1"], ["--timeout", "0"], ["--top_p", "1.5"], ["--n", "0"]])
def test_wrong_values_end_before_anything_is_asked(arguments, evaluate, make_parquet, capsys):
    assert evaluate("--test_file", make_parquet(1), *arguments) == 2
    assert arguments[0].strip("-") in capsys.readouterr().err


def run(*command, cwd=ROOT, environment=None):
    command = [sys.executable, *map(str, command)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=environment)


def test_as_typed_from_the_repository(serve, make_parquet, tmp_path):
    arguments = ["--temperature", "1.0", "--top_p", "0.7", "--max_tokens", "20480", "--model", "tiny"]
    arguments += ["--test_file", make_parquet(2, 2), "--base_url", serve().url, "--out", tmp_path / "o.jsonl"]
    done = run("eval/eval_aime24.py", *arguments)
    assert done.returncode == 0, done.stderr
    assert "avg@2 " in done.stdout
    assert "4/4" in done.stderr
    assert json.loads((tmp_path / "o.summary.json").read_text())["complete"] is True
    done = run("-m", "eval.eval_aime24", *arguments)
    assert done.returncode == 0, done.stderr
    assert "4 of 4 samples are there already" in done.stderr


def test_as_a_file_where_the_repository_is_not_installed(tmp_path):
    """`pip install -r requirements.txt` does not install it; -S leaves out the links that `scripts/setup.sh` made."""
    environment = {"PYTHONPATH": sysconfig.get_path("purelib")}
    for script in ("eval_aime24.py", "compare.py"):
        done = run("-S", ROOT / "eval" / script, "--help", cwd=tmp_path, environment=environment)
        assert done.returncode == 0, done.stderr
        assert "usage" in done.stdout


def test_identity_of_stub_is_by_seed():
    assert identity({"messages": [], "seed": 1}) != identity({"messages": [], "seed": 2})
