"""The evaluation server as typed, `serve run eval.llm:build_app key=value ...`, with the tiny model on CPU."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from eval.served import free_port, running
from recipe.leftovers import runs
from tests.e2e.conftest import ROOT, run_module

SERVE = str(Path(sys.executable).with_name("serve"))
KEY = "a-key"
BATCH = "max-num-batched-tokens=512"  # a few long prompts are more than the engine takes at a time
TEMPLATE = "{{ 'a longer prompt ' if enable_thinking else '' }}"


@pytest.fixture(scope="session")
def model(base):
    """The tiny model under a name of its own, with a chat template that takes an argument."""
    folder = base / "served" / "global_step_20"
    shutil.copytree(base / "base_model", folder)
    template = folder / "chat_template.jinja"
    template.write_text(TEMPLATE + template.read_text())
    return folder


@contextlib.contextmanager
def served(log, *words):
    """A server and its base URL; afterwards none of its processes is left."""
    port = free_port()
    command = [SERVE, "run", "eval.llm:build_app", f"port={port}", *map(str, words)]
    url = f"http://127.0.0.1:{port}"
    with running(command, url, log, 500):
        ours = family(command)
        yield url, ours
    deadline = time.monotonic() + 90  # Ray's agents look for their raylet now and then
    while alive(ours) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert alive(ours) == []


def family(command):
    """The server's process and all of Ray's: Ray detaches its daemons, but they share the session folder."""
    (root,) = [p for p in psutil.process_iter(["cmdline"]) if (p.info["cmdline"] or [])[-len(command) :] == command]
    found = [root, *root.children(recursive=True)]
    raylets = [p for p in found if runs(p) and "raylet" in p.name()]
    assert raylets
    return found + [p for raylet in raylets for p in raylet.children(recursive=True)]


def alive(processes):
    return [p for p in processes if runs(p)]


@pytest.fixture(scope="module")
def open_server(model, tmp_path_factory):
    log = tmp_path_factory.mktemp("server") / "log"
    with served(log, f"model={model}", "tensor-parallel-size=1", "max-model-len=256", BATCH) as (url, processes):
        yield url, processes


@pytest.fixture
def ask(open_server):
    def post(path, status=200, **body):
        answer = httpx.post(f"{open_server[0]}{path}", json={"model": "global_step_20", **body}, timeout=120)
        assert answer.status_code == status, answer.text
        return answer

    return post


def test_seeded_requests_with_long_prompts_do_not_kill_the_engine(ask):
    """On a CPU vLLM cannot rewind the generator of a seeded request whose prompt it cuts in two."""
    asked = [{"messages": question("1+" * 90 + "1=?"), "max_tokens": 8, "seed": seed} for seed in range(12)]
    with ThreadPoolExecutor(len(asked)) as pool:
        answers = list(pool.map(lambda body: ask("/v1/chat/completions", **body).json(), asked))
    assert all(150 < answer["usage"]["prompt_tokens"] < 256 for answer in answers)
    assert sum(answer["usage"]["prompt_tokens"] for answer in answers) > 512


def question(text="47+85=?"):
    return [{"role": "user", "content": text}]


def events(answer):
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_nothing_listens_beyond_loopback_without_a_key(open_server):
    listening = set()
    for process in alive(open_server[1]):
        with contextlib.suppress(psutil.NoSuchProcess):  # Ray's idle workers end
            found = process.net_connections("tcp")
            listening |= {(process.name(), c.laddr.ip) for c in found if c.status == psutil.CONN_LISTEN}
    assert {"raylet", "gcs_server"} <= {name for name, _ in listening}
    beyond = {(name, ip) for name, ip in listening if not ip.removeprefix("::ffff:").startswith("127.") and ip != "::1"}
    assert beyond == set()


def test_both_names_are_listed_and_answer(open_server, model, ask):
    cards = httpx.get(f"{open_server[0]}/v1/models").json()["data"]
    assert [card["id"] for card in cards] == [str(model), "global_step_20"]
    assert {card["max_model_len"] for card in cards} == {256}
    asked = {"messages": question(), "seed": 3, "max_tokens": 40}
    by_path = ask("/v1/chat/completions", **asked, model=str(model)).json()
    by_name = ask("/v1/chat/completions", **asked).json()
    assert by_path["choices"][0]["message"] == by_name["choices"][0]["message"]
    assert "does not exist" in ask("/v1/chat/completions", 404, **asked, model="another").text


def test_n_samples_repeat_with_their_seed(ask):
    def texts(seed):
        answer = ask("/v1/chat/completions", messages=question(), n=4, seed=seed, max_tokens=40).json()
        assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
        assert answer["usage"]["completion_tokens"] > 4
        return [choice["message"]["content"] for choice in answer["choices"]]

    assert texts(1) == texts(1)
    assert texts(1) != texts(2)


def test_streams_say_what_one_answer_says(ask):
    asked = {"messages": question(), "seed": 3, "max_tokens": 30}
    whole = ask("/v1/chat/completions", **asked).json()["choices"][0]
    chunks = [e["choices"][0] for e in events(ask("/v1/chat/completions", **asked, stream=True))]
    assert "".join(chunk["delta"].get("content") or "" for chunk in chunks) == whole["message"]["content"]
    assert chunks[-1]["finish_reason"] == whole["finish_reason"]

    asked = {"prompt": "<|user|>47+85=?<|im_end|><|assistant|>", "seed": 3, "max_tokens": 30}
    whole = ask("/v1/completions", **asked).json()["choices"][0]
    chunks = [e["choices"][0] for e in events(ask("/v1/completions", **asked, stream=True))]
    assert "".join(chunk["text"] for chunk in chunks) == whole["text"] != ""
    assert len(ask("/v1/completions", **asked, n=3).json()["choices"]) == 3


def test_stop_words_are_heeded(ask):
    asked = {"messages": question(), "temperature": 0.0, "max_tokens": 60}
    free = ask("/v1/chat/completions", **asked).json()["choices"][0]["message"]["content"]
    assert "Answer" in free
    choice = ask("/v1/chat/completions", **asked, stop=["Answer"]).json()["choices"][0]
    assert choice["message"]["content"] == free[: free.index("Answer")]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", "Answer")


def test_chat_template_arguments_reach_the_template(ask):
    def prompt_tokens(**more):
        answer = ask("/v1/chat/completions", messages=question(), max_tokens=1, **more)
        return answer.json()["usage"]["prompt_tokens"]

    longer = prompt_tokens(chat_template_kwargs={"enable_thinking": True}) - prompt_tokens()
    assert longer == len("a longer prompt ")  # one token a byte


def test_with_a_key_all_but_health_asks_for_it(model, tmp_path):
    with served(tmp_path / "log", f"model={model}", f"api-key={KEY}") as (url, _):
        right, wrong = ({"Authorization": f"Bearer {key}"} for key in (KEY, "another"))
        body = {"model": str(model), "messages": question(), "max_tokens": 4}
        assert httpx.get(f"{url}/health").status_code == 200
        for headers in ({}, wrong):
            for path in ("/v1/models", "/version", "/metrics"):
                assert httpx.get(f"{url}{path}", headers=headers).status_code == 401, path
            for path in ("/v1/chat/completions", "/v1/completions", "/invocations", "/tokenize"):
                assert httpx.post(f"{url}{path}", headers=headers, json=body).status_code == 401, path
        assert httpx.get(f"{url}/v1/models", headers=right).status_code == 200
        answer = httpx.post(f"{url}/v1/chat/completions", headers=right, json=body, timeout=120)
        assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tensor-paralel-size=1"], "did you mean tensor-parallel-size"),
        (["host=0.0.0.0"], "host=0.0.0.0 opens the server beyond this machine"),
        (["model=/nowhere/ccc"], "model=/nowhere/ccc does not exist"),
    ],
)
def test_what_cannot_work_ends_before_anything_starts(words, message, model):
    command = [SERVE, "run", "eval.llm:build_app", f"model={model}", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, env=without_key())
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if message in line]
    assert line.startswith("Error: ")
    assert "Started a local Ray instance" not in done.stderr


def without_key():
    return {key: value for key, value in os.environ.items() if key != "VLLM_API_KEY"}


def serving(model):
    """Processes whose command line names the model."""
    return {p.pid for p in psutil.process_iter(["cmdline"]) if str(model) in " ".join(p.info["cmdline"] or [])}


def test_one_script_serves_evaluates_and_stops(base, model, tmp_path):
    """The samples differ although the model's own defaults are greedy: an evaluation samples as it says."""
    before = serving(model)
    model = Path(shutil.copytree(model, tmp_path / "greedy"))
    (model / "generation_config.json").write_text('{"do_sample": true, "top_k": 1}')
    out = tmp_path / "samples.jsonl"
    flags = ["--n", "2", "--max_tokens", "64", "--out", str(out)]
    done = subprocess.run(
        ["bash", "scripts/eval_aime24.sh", str(model), "max-model-len=256", *flags],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "TEST_FILE": f"{base}/data/test.parquet"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert {(line["problem"], line["sample"]) for line in lines} == {(p, s) for p in range(32) for s in range(2)}
    assert 0.1 < sum(line["correct"] for line in lines) / len(lines) < 0.9
    assert len({(line["problem"], line["text"]) for line in lines}) > 32
    assert "@2" in done.stdout
    assert serving(model) <= before


def test_a_server_that_is_told_to_end_while_it_starts_leaves_nothing(model, tmp_path):
    command = [
        sys.executable,
        "-m",
        "eval.served",
        str(model),
        "--server_log",
        str(tmp_path / "log"),
        "--test_file",
        "x",
    ]
    launcher = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and "Started a local Ray instance" not in read(tmp_path / "log"):
        time.sleep(0.5)
    ours = psutil.Process(launcher.pid).children(recursive=True)
    assert any("raylet" in p.name() for p in ours)
    launcher.send_signal(signal.SIGTERM)
    assert launcher.wait(120) == 130
    assert alive(ours) == []


def read(path):
    return path.read_text() if path.exists() else ""


def test_the_offline_example_runs_on_a_cpu(base):
    done = run_module("eval.infer", "--model", base / "base_model", "--max_tokens", 20)
    assert [done.stdout.count(word) for word in ("Question: ", "Truth: ", "Output: ")] == [3, 3, 3]
