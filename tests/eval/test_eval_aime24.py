"""The command line against a stub server: what it asks, keeps, resumes, refuses and prints."""

import json
import re
import subprocess
import sys
import sysconfig
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from eval.records import key_of
from tests.eval.stub import Stub, completion, identity

ROOT = Path(__file__).parents[2]


def keys(lines):
    return sorted((line["problem"], line["sample"]) for line in lines)


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


def test_refusal_stops_with_the_servers_message_and_keeps_what_was_answered(
    serve, evaluate, read, make_parquet, capsys
):
    def too_long(request, body, before):
        if "number 3" in body["messages"][0]["content"]:
            from aiohttp import web

            return web.json_response({"error": {"message": "maximum context length is 512 tokens"}}, status=400)
        return None

    server = serve(Stub(fault=too_long))
    arguments = ["--test_file", make_parquet(8), "--base_url", server.url, "--concurrency", 1]
    assert evaluate(*arguments) == 2
    assert "maximum context length is 512 tokens" in capsys.readouterr().err
    assert 0 < len(server.stub.bodies) < 8 or len(read()) == 7
    assert max(server.stub.hits.values()) == 1


def test_other_settings_do_not_join_the_file(serve, evaluate, read, make_parquet, capsys):
    server, file = serve(), make_parquet(2)
    assert evaluate("--test_file", file, "--base_url", server.url) == 0
    before = read()
    assert evaluate("--test_file", file, "--base_url", server.url, "--top_p", 0.9, "--n", 3) == 2
    assert "top_p: 0.7 and 0.9" in capsys.readouterr().err
    other = make_parquet(3, name="other.parquet")
    assert evaluate("--test_file", other, "--base_url", server.url) == 2
    assert "data_hash" in capsys.readouterr().err
    assert read() == before


def test_model_exported_again_is_another_model(serve, evaluate, make_parquet, tmp_path, capsys):
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    stub = Stub()
    stub.cards = [{"id": "model", "root": str(model)}]
    server, file = serve(stub), make_parquet(1)
    assert evaluate("--test_file", file, "--base_url", server.url) == 0
    (model / "config.json").write_text("{ }")
    assert evaluate("--test_file", file, "--base_url", server.url) == 2
    assert "model_fingerprint" in capsys.readouterr().err


def test_default_file_is_found_again_by_the_same_command_only(serve, monkeypatch, make_parquet, tmp_path, evaluate):
    from eval.command import main

    monkeypatch.chdir(tmp_path)
    server, file = serve(), make_parquet(2)
    for seed in (0, 0, 1):
        assert main(["--test_file", str(file), "--base_url", server.url, "--seed", str(seed)]) == 0
    assert len(list((tmp_path / "outputs/eval").glob("tiny-test-*.jsonl"))) == 2
    assert set(server.stub.hits.values()) == {1}


def test_missing_samples_are_listed_and_give_no_figure(serve, evaluate, read, summary, make_parquet, capsys):
    def broken(request, body, before):
        from aiohttp import web

        return web.Response(status=500, text="boom") if "number 1?" in body["messages"][0]["content"] else None

    server = serve(Stub(fault=broken))
    arguments = ["--test_file", make_parquet(3, repeats=2), "--base_url", server.url, "--retries", 2]
    assert evaluate(*arguments) == 1
    printed = capsys.readouterr()
    assert "avg@2" not in printed.out
    assert re.search(r"missing: problem \d, sample 0: status 500: boom", printed.err)
    found = summary()
    assert "mean" not in found
    assert found["complete"] is False
    assert len(found["missing_samples"]) == 2
    assert sorted(server.stub.hits.values()) == [1, 1, 1, 1, 3, 3]
    asked = sum(server.stub.hits.values())

    server.stub.fault = None
    assert evaluate(*arguments) == 0
    assert sum(server.stub.hits.values()) == asked + 2
    assert keys(read()) == [(p, s) for p in range(3) for s in range(2)]


def test_allow_missing_leaves_them_out_and_says_so(serve, evaluate, read, summary, make_parquet, capsys):
    def broken(request, body, before):
        from aiohttp import web

        number = int(re.findall(r"\d+", body["messages"][0]["content"])[0])
        if number == 0 or (number == 1 and len(server.stub.hits) > 5):
            return web.Response(status=503)
        return completion("Answer: 34")

    server = serve(Stub(fault=broken))
    arguments = ["--test_file", make_parquet(4), "--n", 2, "--base_url", server.url, "--retries", 0]
    assert evaluate(*arguments, "--concurrency", 1, "--allow_missing") == 0
    found, answered = summary(), len(read())
    assert found["mean"] == 1.0  # nothing missing was counted as wrong
    assert found["missing"] == 8 - answered > 1
    assert found["problems_without_samples"] == 1
    assert f"left out: {found['missing']} missing samples; 1 problems have no sample" in capsys.readouterr().out


def test_server_that_stopped_answering_is_not_asked_for_ever(serve, evaluate, make_parquet, capsys):
    def broken(request, body, before):
        from aiohttp import web

        return web.Response(status=503)

    server = serve(Stub(fault=broken))
    arguments = ["--test_file", make_parquet(100), "--base_url", server.url, "--retries", 0, "--concurrency", 4]
    assert evaluate(*arguments) == 1
    assert "the server stopped answering" in capsys.readouterr().err
    assert 20 <= sum(server.stub.hits.values()) <= 24


def test_at_most_so_many_at_a_time(serve, evaluate, make_parquet):
    server = serve(Stub(latency=lambda _: 0.01))
    assert evaluate("--test_file", make_parquet(40), "--base_url", server.url, "--concurrency", 5) == 0
    assert server.stub.peak == 5


def test_regrade_needs_the_file_only(serve, evaluate, read, summary, make_parquet, tmp_path, capsys):
    assert evaluate("--test_file", make_parquet(6), "--n", 3, "--base_url", serve().url) == 0
    before, table = summary(), capsys.readouterr().out
    path = tmp_path / "out.jsonl"
    spoiled = [line | {"correct": not line["correct"], "pred": "spoiled", "grader": "another"} for line in read()]
    path.write_text("".join(json.dumps(line) + "\n" for line in spoiled))
    assert evaluate("--regrade", path) == 0
    assert summary() == before
    assert capsys.readouterr().out == table
    (tmp_path / "out.settings.json").unlink()
    assert evaluate("--regrade") == 0
    assert summary()["mean"] == before["mean"]
    assert evaluate("--regrade", path, "--mode", "tutorial") == 0
    assert summary()["settings"]["grader"].startswith("reward.tutorial@")


def test_samples_graded_by_another_verifier_are_graded_again_before_they_count(
    serve, evaluate, read, make_parquet, tmp_path
):
    arguments = ["--test_file", make_parquet(4), "--base_url", serve().url]
    assert evaluate(*arguments) == 0
    before = read()
    old = [line | {"correct": True, "grader": "reward.strict@000000000000/answer"} for line in before]
    (tmp_path / "out.jsonl").write_text("".join(json.dumps(line) + "\n" for line in old))
    assert evaluate(*arguments) == 0
    assert read() == before


class DyingPool(ThreadPoolExecutor):
    """Grading processes that the kernel kills for memory."""

    def submit(self, *_, **__):
        raise BrokenExecutor("killed")


def test_answers_outlive_their_graders(serve, evaluate, read, summary, make_parquet, monkeypatch):
    arguments = ["--test_file", make_parquet(4), "--base_url", serve().url]
    assert evaluate(*arguments) == 0
    expected, figures = sorted(read(), key=key_of), summary()
    monkeypatch.setattr("eval.command.worker_pool", DyingPool)
    assert evaluate(*arguments, out="b.jsonl") == 0
    without_latency = [{k: v for k, v in line.items() if k != "latency_s"} for line in expected]
    found = [{k: v for k, v in line.items() if k != "latency_s"} for line in sorted(read("b.jsonl"), key=key_of)]
    assert found == without_latency
    assert summary("b.summary.json") == figures


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
    from eval.command import main

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
