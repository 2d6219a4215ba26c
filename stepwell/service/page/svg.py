"""The pictures of the page, as SVG: the graph of the pipeline, and the last hour by minutes. Colours are in page.css, by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from stepwell.service.page.graph import GridPlace, PipelineGraph, drawing_of
from stepwell.service.page.texts import cut, number_text

BOX_WIDTH, BOX_HEIGHT = 180, 62
GAP_ACROSS, GAP_DOWN = 56, 16
MARGIN = 8
NAME_CHARACTERS_MAX = 22
"""How many characters fit into a box, in the font of the page. The whole name is shown when a pointer or the focus is on it."""

CHART_WIDTH, CHART_HEIGHT = 720, 140
CHART_LEFT = 56
DASH = 3
"""How wide a minute is that has no neighbour."""


@dataclass(frozen=True)
class BoxText:
    """What a box says below its name. `share`: of all time, from 0 to 1, drawn as a bar. `link`: where a click leads."""

    kind: str
    name: str
    lines: tuple[str, ...]
    share: float
    is_in_error: bool
    link: str
    title: str


def graph_svg(graph: PipelineGraph, texts: Mapping[str, BoxText], style: str | None = None) -> str:
    """The boxes are links, so that they can be reached by keyboard. `style`: the style sheet of a picture that stands alone, in a file; None for
    one in the page, which has its own."""
    drawing = drawing_of(graph)
    width = 2 * MARGIN + drawing.columns * (BOX_WIDTH + GAP_ACROSS) - GAP_ACROSS
    height = 2 * MARGIN + drawing.rows * (BOX_HEIGHT + GAP_DOWN) - GAP_DOWN
    edges = "".join(f'<path class="edge" d="{_curve(path)}"/>' for path in drawing.paths)
    boxes = "".join(_box(texts[name], place) for name, place in zip(graph.names, drawing.boxes, strict=True))
    space, sheet = ("", "") if style is None else (' xmlns="http://www.w3.org/2000/svg"', f"<style>{style}</style>")
    return (
        f'<svg{space} viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="group" '
        f'aria-label="the pipeline: {len(graph.names)} sources, views and outputs">{sheet}{edges}{boxes}</svg>'
    )


def _left_top(place: GridPlace) -> tuple[int, int]:
    return MARGIN + place.column * (BOX_WIDTH + GAP_ACROSS), MARGIN + place.row * (BOX_HEIGHT + GAP_DOWN)


def _curve(path: Sequence[GridPlace]) -> str:
    """From the right side of the first box to the left side of the last, straight through the places between."""
    text = ""
    for at, (origin, reader) in enumerate(pairwise(path)):
        left, top = _left_top(origin)
        x, y = left + BOX_WIDTH, top + BOX_HEIGHT / 2
        left, top = _left_top(reader)
        to_x, to_y = left, top + BOX_HEIGHT / 2
        bend = GAP_ACROSS / 2
        text += f"M{x:g} {y:g}" if at == 0 else f"L{x:g} {y:g}"
        text += f"C{x + bend:g} {y:g} {to_x - bend:g} {to_y:g} {to_x:g} {to_y:g}"
    return text


def _box(text: BoxText, place: GridPlace) -> str:
    x, y = _left_top(place)
    classes = f"box {text.kind}{' bad' if text.is_in_error else ''}"
    bar = f'<rect class="bar" x="{x}" y="{y + BOX_HEIGHT - 4}" width="{BOX_WIDTH * text.share:.1f}" height="4"/>'
    lines = "".join(
        f'<text class="line" x="{x + 10}" y="{y + 36 + 14 * at}">{escape(line)}</text>'
        for at, line in enumerate(text.lines)
    )
    return (
        f'<a href="#{escape(text.link)}" aria-label="{escape(text.title)}"><title>{escape(text.title)}</title>'
        f'<rect class="{classes}" x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6"/>{bar}'
        f'<text class="name" x="{x + 10}" y="{y + 19}">{escape(cut(text.name, NAME_CHARACTERS_MAX))}</text>{lines}</a>'
    )


@dataclass(frozen=True)
class Line:
    """One line of a chart: its name, its class, and a value for each minute; None where there is none."""

    name: str
    style: str
    values: Sequence[float | None]


def chart_svg(title: str, lines: Sequence[Line], unit: str) -> str:
    """Lines over the minutes of the last hour, from 0 to the greatest value."""
    most = max((value for line in lines for value in line.values if value is not None), default=0.0) or 1.0
    drawn = "".join(f'<path class="plot {line.style}" d="{_plot(line.values, most)}"/>' for line in lines)
    ticks = "".join(
        f'<text class="tick" x="{CHART_LEFT - 6}" y="{_height(part, 1.0) + 4:g}">{number_text(part * most)}</text>'
        f'<path class="grid" d="M{CHART_LEFT} {_height(part, 1.0):g}H{CHART_WIDTH}"/>'
        for part in (0.0, 0.5, 1.0)
    )
    legend = ", ".join(line.name for line in lines)
    keys = "".join(f'<li class="{line.style}">{escape(line.name)}</li>' for line in lines)
    return (
        f'<figure><figcaption>{escape(title)}, {escape(unit)}<ul class="keys">{keys}</ul></figcaption>'
        f'<svg class="chart" viewBox="0 0 {CHART_WIDTH} {CHART_HEIGHT}" role="img" '
        f'aria-label="{escape(title)}: {escape(legend)}, at most {number_text(most)} {escape(unit)}">{ticks}{drawn}</svg></figure>'
    )


def _height(value: float, most: float) -> float:
    return CHART_HEIGHT - 12 - (CHART_HEIGHT - 24) * value / most


def _plot(values: Sequence[float | None], most: float) -> str:
    """A gap where a minute has no value. A minute between two gaps is a dash."""
    step = (CHART_WIDTH - CHART_LEFT) / max(1, len(values) - 1)
    text, is_drawn = "", False
    for at, value in enumerate(values):
        if value is None:
            is_drawn = False
            continue
        point = f"{CHART_LEFT + step * at:.1f} {_height(value, most):.1f}"
        text += f"L{point}" if is_drawn else f"M{point}h-{DASH}h{DASH}"
        is_drawn = True
    return text
