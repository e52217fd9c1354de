"""Draws with matplotlib: one figure as inline SVG, whose colours follow the page's theme, and as a PNG beside it.

The SVG's colours are CSS variables (`--ink`, `--grid`, `--series-0` ...) that the page defines for light and dark; the
PNG has the light ones. Text stays text, so that it can be read aloud, searched and set in the page's font.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

INK, MUTED, GRID, PAPER = "#1b1f24", "#5b6470", "#d9dde2", "#ffffff"
SERIES = ("#0060a8", "#c44900", "#007a5a", "#a8458a", "#8a6a00", "#5b4fc0", "#b3203b", "#4a5a68", "#2f7d9b", "#7a4b2a")
SERIES_DARK = (
    "#6cb8ff",
    "#ff9d5c",
    "#4fd1a5",
    "#f09ad6",
    "#e3c04a",
    "#ada3ff",
    "#ff8494",
    "#b5c2cd",
    "#7fd4f2",
    "#d8a583",
)
_MARKERS = "os^DvPX*<>"
_DASHES = ("-", (0, (4, 2)), (0, (1, 1.5)))
_THEME = {INK: "var(--ink)", MUTED: "var(--muted)", GRID: "var(--grid)", PAPER: "var(--paper)"}
_THEME |= {color: f"var(--series-{i})" for i, color in enumerate(SERIES)}
_SIZE = (5.2, 3.3)  # inches of 72 px: about the width of a phone, so that text keeps its size there
_LEGEND_ROW, _LEGEND_ROWS = 0.21, 3  # inches that a row takes, and how many fit without the figure growing
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "report",
    "text.parse_math": False,  # a run may be called $x$
    "font.family": "sans-serif",
    "font.size": 10.5,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": GRID,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.limits": (-4, 5),
}


@dataclass(frozen=True)
class Plotted:
    """One line to draw: `style` counts runs (colour and marker), `dash` the lines of one run.

    `label` names the line in the words beside the figure, `legend` in the figure (empty: not there).
    """

    label: str
    legend: str
    x: Sequence[float]
    y: Sequence[float]
    style: int = 0
    dash: int = 0


@dataclass(frozen=True)
class Drawing:
    """A finished figure: `svg` to stand in a page, `png` the bytes of the picture, `alt` what it shows in words."""

    name: str
    title: str
    alt: str
    note: str
    svg: str
    png: bytes


def lines(name: str, title: str, unit: str, plotted: Sequence[Plotted], note: str = "") -> Drawing:
    """Lines over training steps."""
    with matplotlib.rc_context(_STYLE):
        figure, axes = _figure(title, unit)
        for line in plotted:
            axes.plot(
                line.x,
                line.y,
                label=line.legend,
                color=SERIES[line.style % len(SERIES)],
                linestyle=_DASHES[line.dash % len(_DASHES)],
                marker=_MARKERS[line.style % len(_MARKERS)],
                markersize=4,
                markevery=max(1, len(line.x) // 12),
                linewidth=1.8,
            )
        axes.set_xlabel("training step")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
        _legend(figure, axes)
        return _finish(figure, name, title, _tell(title, unit, plotted), note)


def stacked(
    name: str, title: str, unit: str, x: Sequence[int], parts: Mapping[str, Sequence[float]], note: str = ""
) -> Drawing:
    """Bars over training steps, one part on the other."""
    with matplotlib.rc_context(_STYLE):
        figure, axes = _figure(title, unit)
        base = [0.0] * len(x)
        for i, (label, values) in enumerate(parts.items()):
            axes.bar(x, values, bottom=base, label=label, width=0.85, color=SERIES[i % len(SERIES)])
            base = [b + v for b, v in zip(base, values, strict=True)]
        axes.set_xlabel("training step")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
        _legend(figure, axes)
        totals = {label: sum(values) for label, values in parts.items()}
        whole = sum(totals.values()) or 1.0
        told = ", ".join(f"{label} {total / whole:.0%}" for label, total in totals.items())
        return _finish(
            figure, name, title, f"{title}, {unit}, stacked bars by training step. Over all steps: {told}.", note
        )


def intervals(
    name: str, title: str, unit: str, rows: Sequence[tuple[str, float, float, float, int]], note: str = ""
) -> Drawing:
    """Means with intervals, one below the other; a row is label, mean, low, high and style."""
    with matplotlib.rc_context(_STYLE):
        figure, axes = _figure(title, "", height=0.9 + 0.42 * len(rows))
        for place, (_, mean, low, high, style) in enumerate(rows):
            color = SERIES[style % len(SERIES)]
            axes.plot([low, high], [place, place], color=color, linewidth=2)
            axes.plot([mean], [place], color=color, marker=_MARKERS[style % len(_MARKERS)], markersize=7)
        axes.set_yticks(range(len(rows)), [row[0] for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel(unit)
        told = "; ".join(f"{label} {mean:.3f}, from {low:.3f} to {high:.3f}" for label, mean, low, high, _ in rows)
        return _finish(figure, name, title, f"{title}, {unit}, with 95 % intervals: {told}.", note)


def write_png(drawing: Drawing, folder: Path) -> None:
    """Write the picture as `folder/NAME.png`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{drawing.name}.png").write_bytes(drawing.png)


def _figure(title: str, unit: str, height: float = _SIZE[1]) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(_SIZE[0], height), layout="constrained", facecolor=PAPER)
    axes = figure.add_subplot(facecolor=PAPER)
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold")
    axes.set_ylabel(unit)
    axes.grid(True, linewidth=0.7)
    axes.set_axisbelow(True)
    return figure, axes


def _legend(figure: Figure, axes: Axes) -> None:
    """Below the axes, where it hides no data; none where nothing has a label."""
    entries = [(handle, label) for handle, label in zip(*axes.get_legend_handles_labels(), strict=True) if label]
    if not entries:
        return
    handles, labels = zip(*entries, strict=True)
    longest = max(map(len, labels))
    columns = 1 if longest > 24 else 2 if longest > 14 else 3
    rows = -(-len(labels) // columns)
    figure.set_figheight(figure.get_figheight() + _LEGEND_ROW * max(0, rows - _LEGEND_ROWS))
    figure.legend(handles, labels, loc="outside lower left", ncols=columns, frameon=False, fontsize=10, handlelength=3)


def _finish(figure: Figure, name: str, title: str, alt: str, note: str) -> Drawing:
    title, alt = title.replace("\n", ", "), alt.replace("\n", ", ")
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # laid out once, for both files
    vector, picture = io.StringIO(), io.BytesIO()
    figure.savefig(vector, format="svg", metadata={"Date": None})
    figure.savefig(picture, format="png", dpi=120, metadata={"Title": title, "Description": alt})
    return Drawing(name, title, alt, note, inline(vector.getvalue(), name, alt), picture.getvalue())


def inline(svg: str, name: str, alt: str) -> str:
    """An SVG document as an element of a page: no prolog or style, ids apart, the page's colours and font."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.S)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r"font(-family)?: ([^;\"]*?)'DejaVu Sans'[^;\"]*", _page_font, svg)
    for color, variable in _THEME.items():
        svg = svg.replace(color, variable)
    opening = re.search(r'viewBox="[^"]+"', svg)
    assert opening is not None
    head = f'<svg {opening[0]} role="img" aria-label="{html.escape(alt)}" xmlns:xlink="http://www.w3.org/1999/xlink">'
    return head + svg[svg.index(">") + 1 :]


def _page_font(match: re.Match[str]) -> str:
    return f"font{match[1] or ''}: {match[2]}var(--font, sans-serif)"


def _tell(title: str, unit: str, plotted: Sequence[Plotted]) -> str:
    """The lines in words: where each begins and ends, and its range."""
    told = [
        f"{(line.label + ': ') if line.label else ''}{line.y[0]:.3g} at step {line.x[0]}, {line.y[-1]:.3g} at step "
        f"{line.x[-1]}, between {min(line.y):.3g} and {max(line.y):.3g}"
        for line in plotted
    ]
    return f"{title}, {unit}, by training step. {'; '.join(told)}."
