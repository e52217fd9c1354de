import json

import pytest

from eval.evaluate import regrade
from eval.grading import NOT_GRADED, Grader, grade_lines
from eval.records import SampleFile, read_lines, settings_path, summary_path


def line(problem, sample, text="Answer: 34", **more):
    fields = {"problem": problem, "sample": sample, "text": text, "gold": "34", "finish_reason": "stop"}
    return fields | {"correct": True, "grader": "x", **more}


def write(path, lines, tail=b""):
    path.write_bytes(b"".join(json.dumps(entry).encode() + b"\n" for entry in lines) + tail)
    return path


@pytest.mark.parametrize("cut", [1, 20, -1])
def test_line_torn_by_a_kill_is_dropped_and_written_again(tmp_path, cut):
    whole = json.dumps(line(0, 1)).encode() + b"\n"
    path = write(tmp_path / "a.jsonl", [line(0, 0)], tail=whole[:cut])
    with SampleFile(path) as file:
        assert list(file.lines) == [(0, 0)]
        file.append(line(0, 1))
    assert [json.loads(entry)["sample"] for entry in path.open()] == [0, 1]


def test_appended_lines_are_in_the_file_at_once(tmp_path):
    with SampleFile(tmp_path / "new" / "a.jsonl") as file:
        file.append(line(0, 0, text="\u2028 \ud800 \x00 \r\n"))
        found, _ = read_lines(file.path)
    assert found[0, 0]["text"] == "\u2028 \ud800 \x00 \r\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"problem": 0\n', r"a\.jsonl:2: not JSON"),
        (b"[]\n", r"a\.jsonl:2: no sample"),
        (b'{"problem": 0, "sample": "1"}\n', r"a\.jsonl:2: .*'sample' is missing or no int"),
        (json.dumps(line(0, 0)).encode() + b"\n", r"a\.jsonl:2: problem 0, sample 0 stands twice"),
    ],
)
def test_damage_is_named_with_its_line(tmp_path, content, message):
    path = write(tmp_path / "a.jsonl", [line(0, 0)], tail=content)
    before = path.read_bytes()
    for _ in range(2):  # the file is not held after the first failure
        with pytest.raises(ValueError, match=message):
            SampleFile(path)
    assert path.read_bytes() == before


def test_two_models_do_not_share_settings_or_summary(tmp_path):
    for where in (settings_path, summary_path):
        assert where(tmp_path / "Qwen2.5-7B.jsonl") != where(tmp_path / "Qwen2.5-32B.jsonl")
    with pytest.raises(ValueError, match=r"say Qwen2\.5-7B\.jsonl"):
        SampleFile(tmp_path / "Qwen2.5-7B")
    assert not list(tmp_path.iterdir())


def test_second_writer_is_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    with SampleFile(path) as file:
        with pytest.raises(ValueError, match=r"a\.jsonl is being written by another evaluation"):
            SampleFile(path)
        file.rewrite([line(0, 0)])
        with pytest.raises(ValueError, match="another evaluation"):
            SampleFile(path)
        file.append(line(0, 1))
    with SampleFile(path) as file:
        assert list(file.lines) == [(0, 0), (0, 1)]


def test_sample_whose_grader_died_is_graded_at_the_next_look(tmp_path):
    grader = Grader()
    with SampleFile(tmp_path / "a.jsonl") as file:
        file.append(line(0, 0, grader=grader.name))
        file.append(line(0, 1) | NOT_GRADED)
        assert regrade(file, grader) == 1
        assert file.lines[0, 1]["correct"] is True
        assert regrade(file, grader) == 0
    found, _ = read_lines(tmp_path / "a.jsonl")
    assert [entry["grader"] for entry in found.values()] == [grader.name] * 2


def test_grading_in_processes_keeps_the_order_and_calls_the_reward():
    texts = [f"Answer: {n}" for n in range(30, 40)] + ["nothing"]
    graded = grade_lines([line(0, i, text=text) for i, text in enumerate(texts)], Grader(), workers=1)
    assert [entry["pred"] for entry in graded] == [str(n) for n in range(30, 40)] + [None]
    assert [entry["correct"] for entry in graded] == [n == 34 for n in range(30, 40)] + [False]
