"""The report in a real browser, on a phone's width and on a desk's, in light and in dark, by screenshot.

It takes an installed Chromium: the one that CHROMIUM names, or the first of the usual names on the PATH.
"""

import contextlib
import io
import os
import shutil

import pytest
from PIL import Image

from eval.report.page import write_report
from eval.report.read import read_run
from tests.eval.runs import HOSTILE, make_run

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: bash scripts/setup.sh")
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
VIEWS = [(390, "light"), (390, "dark"), (1440, "light"), (1440, "dark")]

# What sticks out of the page or of the box that scrolls it, and figure text that leaves its figure.
OVERFLOW = """() => {
  const wide = document.documentElement.clientWidth + 0.5;
  const inside = e => e.closest('.scroll, pre, details:not([open])');
  const all = [...document.body.querySelectorAll('*')];
  const out = all.filter(e => !inside(e) && e.getBoundingClientRect().right > wide);
  const texts = [...document.querySelectorAll('figure svg text')].filter(t => {
    const a = t.getBoundingClientRect(), b = t.closest('svg').getBoundingClientRect();
    return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1 || a.bottom > b.bottom + 1;
  });
  return [...out, ...texts].map(e => e.tagName + ' ' + e.textContent.slice(0, 40));
}"""


@pytest.fixture(scope="module")
def browser():
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no browser: set CHROMIUM, or install one of {', '.join(NAMES)}")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    long_name = "qwen2.5_32b-wo_dynamic_sampling-a_long_word_in_the_name-seed2"
    runs = [make_run(folder / "a"), make_run(folder / "b", steps=12, name=long_name, config=[("data.x", "y" * 200)])]
    (folder / "b" / "attempts" / "000").mkdir(parents=True)
    (folder / "b" / "attempts" / "000" / "plan.txt").write_text("12 rollout steps, " + "w" * 300)
    return write_report([read_run(run) for run in runs], folder / "out")


@contextlib.contextmanager
def opened(browser, page_file, width, scheme):
    """A page in one view, with everything that the browser complained about or asked the network for."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.complaints, page.scheme = [], scheme
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("dialog", lambda dialog: page.complaints.append("dialog") or dialog.dismiss())
    page.on("request", lambda r: page.complaints.append(r.url) if r.url != page_file.as_uri() else None)
    page.goto(page_file.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    yield page
    context.close()


@pytest.fixture(params=VIEWS, ids=lambda view: f"{view[0]}-{view[1]}")
def shown(request, browser, page_file):
    with opened(browser, page_file, *request.param) as page:
        yield page


def nothing_overflows_and_the_console_is_silent(shown):
    assert shown.evaluate("document.documentElement.scrollWidth") <= shown.viewport_size["width"]
    assert shown.evaluate(OVERFLOW) == []
    assert shown.complaints == []


def test_nothing_overflows_and_the_console_is_silent(shown):
    nothing_overflows_and_the_console_is_silent(shown)


def one(folder):
    return [make_run(folder / "run")]


def just_started(folder):
    run = make_run(folder / "run")
    for part in ("metrics", "examples", "eval"):
        shutil.rmtree(run / part)
    return [run]


def ladder(folder):
    return [make_run(folder / f"{i}-{s}", 4, f"ablation_cpu-technique_{i}-seed{s}") for s in range(3) for i in range(6)]


@pytest.mark.parametrize(
    "runs", [lambda folder: [make_run(folder / "run")], just_started, ladder], ids=["1", "0", "18"]
)
def test_one_run_a_run_without_steps_and_a_ladder_fit_too(browser, tmp_path, runs):
    page_file = write_report([read_run(run) for run in runs(tmp_path)], tmp_path / "out")
    for width in (390, 1440):
        with opened(browser, page_file, width, "light") as page:
            nothing_overflows_and_the_console_is_silent(page)


def test_hostile_response_shows_as_text(shown):
    visible = shown.inner_text("details.response.right pre >> nth=1")
    assert visible.startswith(HOSTILE[: HOSTILE.index(" ")])
    assert shown.evaluate("document.scripts.length") == 0


def test_screenshot_shows_paper_ink_and_lines_of_the_theme(shown):
    picture = Image.open(io.BytesIO(shown.screenshot())).convert("RGB")
    corner = picture.getpixel((2, 2))
    assert (max(corner) < 60) if shown.scheme == "dark" else (min(corner) > 230)
    figure = Image.open(io.BytesIO(shown.locator("figure svg").nth(2).screenshot())).convert("RGB")
    colors = {color for _, color in figure.getcolors(1 << 20)}
    wanted = {"light": [(0, 96, 168), (196, 73, 0)], "dark": [(108, 184, 255), (255, 157, 92)]}
    assert colors >= set(wanted[shown.scheme])


def test_text_of_figures_can_be_read_on_a_phone(shown):
    height = shown.evaluate("document.querySelector('figure svg text').getBoundingClientRect().height")
    assert height >= 9
