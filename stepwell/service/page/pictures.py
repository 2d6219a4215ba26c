"""The graph of a pipeline as a picture that stands alone: for a README, a document, or another tool."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from html import escape
from typing import Literal

from stepwell.service.page.graph import PipelineGraph, bare_name, kind_of
from stepwell.service.page.svg import BoxText, graph_svg
from stepwell.service.page.texts import cut

PictureFormat = Literal["svg", "mermaid", "dot", "text"]

_STYLE = """
:root { color-scheme: light dark; --text: #1d2328; --dim: #59636b; --line: #d5dade; --view: #e8f1fa; --source: #eaf5ec; --output: #f5eefa; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6eaed; --dim: #a3adb5; --line: #39424a; --view: #1e3347; --source: #1f3a28; --output: #352544; }
}
text { fill: var(--text); font: 13px system-ui, sans-serif; }
.name { font-weight: 600; }
.line { fill: var(--dim); font-size: 11.5px; }
.edge { fill: none; stroke: var(--dim); stroke-width: 1.5; opacity: 0.6; }
.box { stroke: var(--line); stroke-width: 1.5; fill: var(--view); }
.source { fill: var(--source); }
.output { fill: var(--output); }
"""
"""The colours of the page (page.css)."""

LINE_CHARACTERS_MAX = 28
"""How many characters fit into a box below its name. The whole text is the title of the box."""

_SHAPES = {"source": ("[(", ")]", "cylinder"), "view": ("[", "]", "box"), "output": ("([", "])", "oval")}
"""The shapes of each kind: the brackets of Mermaid, and the shape of Graphviz."""


def picture(graph: PipelineGraph, topics: Mapping[str, str], form: PictureFormat) -> str:
    """`topics`: what a box says below its name, by the name for users. Ends with a line break."""
    return _FORMS[form](graph, topics)


def _svg(graph: PipelineGraph, topics: Mapping[str, str]) -> str:
    def box(name: str) -> BoxText:
        below = topics.get(name)
        return BoxText(
            kind=kind_of(name),
            name=bare_name(name),
            lines=(kind_of(name), *([cut(below, LINE_CHARACTERS_MAX)] if below else [])),
            share=0.0,
            is_in_error=False,
            link="",
            title=f"{name}: {below}" if below else name,
        )

    return graph_svg(graph, {name: box(name) for name in graph.names}, _STYLE) + "\n"


def _mermaid(graph: PipelineGraph, topics: Mapping[str, str]) -> str:
    lines = ["graph LR"]
    for at, name in enumerate(graph.names):
        left, right, _ = _SHAPES[kind_of(name)]
        text = "<br>".join(escape(part) for part in (bare_name(name), topics.get(name, "")) if part)
        lines.append(f'  n{at}{left}"{text}"{right}')
    lines += [f"  n{origin} --> n{reader}" for origin, reader in graph.edges]
    return "\n".join(lines) + "\n"


def _dot(graph: PipelineGraph, topics: Mapping[str, str]) -> str:
    lines = ["digraph pipeline {", "  rankdir=LR"]
    for at, name in enumerate(graph.names):
        text = "\n".join(part for part in (bare_name(name), topics.get(name, "")) if part)
        label = json.dumps(text, ensure_ascii=False)  # a string of Graphviz has the same escapes
        lines.append(f"  n{at} [label={label}, shape={_SHAPES[kind_of(name)][2]}]")
    lines += [f"  n{origin} -> n{reader}" for origin, reader in graph.edges]
    return "\n".join([*lines, "}"]) + "\n"


def _text(graph: PipelineGraph, topics: Mapping[str, str]) -> str:
    def of(name: str) -> str:
        return f"{name} ({topics[name]})" if topics.get(name) else name

    joined = {place for edge in graph.edges for place in edge}
    alone = [of(name) for at, name in enumerate(graph.names) if at not in joined]
    lines = [f"{of(graph.names[origin])} -> {of(graph.names[reader])}" for origin, reader in graph.edges]
    return "\n".join([*lines, *alone]) + "\n"


_FORMS: Mapping[PictureFormat, Callable[[PipelineGraph, Mapping[str, str]], str]] = {
    "svg": _svg,
    "mermaid": _mermaid,
    "dot": _dot,
    "text": _text,
}
