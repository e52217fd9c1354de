import re

from eval.progress import Progress


def line(problem, correct, tokens=10, attempts=1):
    return {"problem": problem, "correct": correct, "completion_tokens": tokens, "attempts": attempts}


def test_line_has_counts_average_rate_and_failures(capsys):
    progress = Progress(8, 4, done=[line(0, True), line(1, False)])
    for answer in (line(0, False), line(1, False, attempts=3), line(1, False, tokens=None)):
        progress.answered(answer)
    progress.failed()
    text = progress.text()
    progress.close()
    assert text.startswith("avg@4 0.250, ")  # (1/2 + 0/3) / 2: problems weigh equally
    assert text.endswith(" tokens/s, 2 repeated, 1 failed")
    printed = capsys.readouterr().err
    assert "5/8" in printed
    assert re.search(r"\d\d:\d\d<", printed)  # time left


def test_line_of_nothing_yet():
    progress = Progress(8, 4)
    assert progress.text() == "avg@4 -, 0 tokens/s, 0 repeated, 0 failed"
    progress.close()
