"""The report as one HTML file that needs nothing else: no script, no network, every text from a run escaped."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from eval.report import drawings, tables
from eval.report.figures import SERIES, SERIES_DARK, Drawing, write_png
from eval.report.health import Firing, firings
from eval.report.read import Run
from eval.report.responses import Response, choose, readable
from recipe.provenance import write_text_atomic

RESPONSES = 20
_FOLDER = Path(__file__).parent
_RULES_NOTE = (
    "Rules and thresholds: configs/health/default.yaml, or health.* of the run. A rule looks at the mean of the last "
    "steps; that none fires is no proof of a good run."
)


@dataclass(frozen=True)
class Section:
    """A headed part of the page that holds tables and figures only."""

    name: str
    tables: list[tables.Table]
    figures: list[Drawing]


@dataclass(frozen=True)
class RunView:
    """A run as the template shows it; `look` numbers its colour, `health` is None when nothing could be judged."""

    name: str
    state: str
    gaps: list[str]
    commit: str
    look: int
    health: list[Firing] | None
    step_count: int
    plan: str
    responses: list[Response]


def write_report(runs: Sequence[Run], out: Path) -> Path:
    """Write `out/index.html` and `out/NAME.png` for each figure; return the page's path.

    Raises:
        ValueError: there is no run, or `out` is a file.
    """
    if not runs:
        raise ValueError("a report needs at least one run folder")
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out={out} is a file: name a folder, new or of an earlier report")
    runs = told_apart(runs)
    sections = figure_sections(runs)
    accuracy_figures = drawings.accuracy(runs)
    out.mkdir(parents=True, exist_ok=True)
    for drawing in [*accuracy_figures, *(figure for section in sections for figure in section.figures)]:
        write_png(drawing, out)
    page = out / "index.html"
    write_text_atomic(page, render(runs, sections, accuracy_figures))
    return page


def told_apart(runs: Sequence[Run]) -> list[Run]:
    """The same runs, those of equal names with their folder's name added, and a number where that is equal too."""
    found: list[Run] = []
    for run in runs:
        equal = [other for other in runs if other.name == run.name]
        name = run.name if len(equal) == 1 else f"{run.name} ({run.folder.resolve().name})"
        taken = sum(other.name == name or other.name.startswith(f"{name} #") for other in found)
        found.append(replace(run, name=f"{name} #{taken + 1}" if taken else name))
    return found


def figure_sections(runs: Sequence[Run]) -> list[Section]:
    """The sections between accuracy and plan."""
    return [
        Section("Curves", [], drawings.paper_curves(runs)),
        Section("Filter and waste", _filled(tables.sampling(runs)), drawings.filter_curves(runs)),
        Section("Updates", [], drawings.update_curves(runs)),
        Section(
            "Time and memory", _filled(tables.phases(runs), tables.throughput(runs)), drawings.cost_curves(runs)
        ),
    ]  # fmt: skip


def render(runs: Sequence[Run], sections: Sequence[Section], accuracy_figures: Sequence[Drawing]) -> str:
    """The page as text."""
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # the one thing that is not escaped: SVG that figures.py drew, in which matplotlib has escaped every text
    environment.filters.update(
        markup=Markup,
        anchor=lambda text: re.sub(r"[^a-z]+", "-", text.lower()),
        capitalised=lambda text: text[:1].upper() + text[1:],
    )
    names = ["Runs", "Health", "Accuracy", *(s.name for s in sections), "Preflight plan", "Differences", "Responses"]
    return environment.get_template("page.html").render(
        title=f"Run report: {runs[0].name}" if len(runs) == 1 else f"Run report: {len(runs)} runs",
        written=f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC",
        style=Markup(_style()),
        contents=names,
        runs=_views(runs),
        rules_note=_RULES_NOTE,
        accuracy_table=tables.accuracy(runs),
        accuracy_figures=accuracy_figures,
        figure_sections=sections,
        differences=tables.config_differences(runs),
    )


def _views(runs: Sequence[Run]) -> list[RunView]:
    each = max(4, math.ceil(RESPONSES / len(runs)))
    return [
        RunView(run.name, run.state, run.gaps, run.commit, look % len(SERIES), firings(run),
                sum(step > 0 for step in run.steps), run.plan,
                [_shown(response) for response in choose(run.responses, each)])
        for run, look in zip(runs, drawings.styles(runs), strict=True)
    ]  # fmt: skip


def _shown(response: Response) -> Response:
    texts = {name: readable(getattr(response, name)) for name in ("prompt", "response", "gold", "pred")}
    return replace(response, **texts)  # type: ignore[arg-type]


def _style() -> str:
    css = (_FOLDER / "page.css").read_text()
    swatches = "\n".join(f".s{i} {{ background: var(--series-{i}); }}" for i in range(len(SERIES)))
    return css.replace("{{ light }}", _variables(SERIES)).replace("{{ dark }}", _variables(SERIES_DARK)) + swatches


def _variables(colors: Sequence[str]) -> str:
    return " ".join(f"--series-{i}: {color};" for i, color in enumerate(colors))


def _filled(*found: tables.Table) -> list[tables.Table]:
    return [table for table in found if table.rows]
