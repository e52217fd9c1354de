"""Through failures, interruptions and changed settings: what is kept, asked again, graded again, refused, left out."""

import json
import re
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor

from aiohttp import web

from eval.command import main
from eval.records import key_of
from tests.eval.stub import Stub, completion


def keys(lines):
    return sorted(map(key_of, lines))


def test_refusal_stops_with_the_servers_message_and_keeps_what_was_answered(
    serve, evaluate, read, make_parquet, capsys
):
    def too_long(request, body, before):
        if "number 3" in body["messages"][0]["content"]:
            return web.json_response({"error": {"message": "maximum context length is 512 tokens"}}, status=400)
        return None

    server = serve(Stub(fault=too_long))
    arguments = ["--test_file", make_parquet(8), "--base_url", server.url, "--concurrency", 1]
    assert evaluate(*arguments) == 2
    assert "maximum context length is 512 tokens" in capsys.readouterr().err
    assert len(read()) == len(server.stub.bodies) - 1
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


def test_other_settings_replace_the_file_on_request_only(serve, evaluate, read, make_parquet):
    server, file = serve(), make_parquet(2)
    same = ["--test_file", file, "--base_url", server.url, "--replace"]
    assert evaluate(*same, "--n", 2) == 0
    before = read()
    assert evaluate(*same, "--n", 2) == 0
    assert read() == before  # nothing is asked again
    assert evaluate(*same, "--top_p", 0.9) == 0
    assert keys(read()) == [(0, 0), (1, 0)]
    assert server.stub.bodies[-1]["top_p"] == 0.9


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
    monkeypatch.chdir(tmp_path)
    server, file = serve(), make_parquet(2)
    for seed in (0, 0, 1):
        assert main(["--test_file", str(file), "--base_url", server.url, "--seed", str(seed)]) == 0
    assert len(list((tmp_path / "outputs/eval").glob("tiny-test-*.jsonl"))) == 2
    assert set(server.stub.hits.values()) == {1}


def test_missing_samples_are_listed_and_give_no_figure(serve, evaluate, read, summary, make_parquet, capsys):
    def broken(request, body, before):
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
        return web.Response(status=503)

    server = serve(Stub(fault=broken))
    arguments = ["--test_file", make_parquet(100), "--base_url", server.url, "--retries", 0, "--concurrency", 4]
    assert evaluate(*arguments) == 1
    assert "the server stopped answering" in capsys.readouterr().err
    assert 20 <= sum(server.stub.hits.values()) <= 24


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
