"""What `stepwell dry-run` shows. For each view a line, with its notes: what it reads, where it goes, and whether it can retract rows. Then
everything that is not supported, with file and line. A view that is explained has its circuit too, with exchanges and traces, and why it
retracts.

Nothing is run, and nothing is read from Kafka. The exchanges come from `engine/analysis/stages.py`, so they are the ones
of a run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from rich.console import Group, RenderableType
from rich.text import Text

from engine.analysis.retraction import append_only_inputs, retraction_reason
from engine.analysis.stages import Channel, StagePlan, plan_stages
from engine.model.circuit import Circuit, Output, View
from engine.model.rows import Constant
from engine.operators.table import operator_of
from stepwell.errors import ProjectError
from stepwell.inspection.milliseconds import precision_notes
from stepwell.lowering.driver import Lowered, lower_with_errors
from stepwell.lowering.text import node_text
from stepwell.planning.plans import ResolvedProject, ResolvedView


@dataclass(frozen=True)
class NodeLine:
    """One node of a view. `exchanges` has, for each input, the columns by which its rows are exchanged first, "everyone" if they are sent to
    all workers, or None. `trace` says in words what the node keeps. It is empty if the node keeps nothing."""

    index: int
    text: str
    stage: int
    exchanges: tuple[tuple[int, ...] | Literal["everyone"] | None, ...]
    trace: str


@dataclass(frozen=True)
class ViewDescription:
    """What `dry-run` shows of a view. `nodes` are what the view computes from its sources and from other views. `shared` nodes were shown with
    an earlier view and are not repeated. `retracts` says why the view can retract rows. It is empty if it cannot."""

    name: str
    kind: str
    location: str
    reads: tuple[str, ...]
    output: str
    retracts: str
    nodes: tuple[NodeLine, ...]
    shared: tuple[int, ...]
    notes: tuple[str, ...]
    errors: tuple[str, ...]


@dataclass(frozen=True)
class ProjectDescription:
    """What `dry-run` shows of a project. `fingerprint` is that of the circuit, by which state is recognised. It is empty if something is not
    supported. `notes` are about sources, temporary views and statements that define nothing; those about views are with the views."""

    views: tuple[ViewDescription, ...]
    unread_sources: tuple[str, ...]
    exchanges: int
    fingerprint: str
    errors: tuple[str, ...] = field(default=())
    notes: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def text(self, explained: Collection[str] = ()) -> str:
        """`explained`: the views whose circuits are shown, which must be among `views`."""
        return "\n".join(_lines(self, explained))

    def renderable(self, explained: Collection[str] = ()) -> RenderableType:
        """Returns the lines of `text` with colours."""
        return Group(*(Text(line, style=_style(line)) for line in _lines(self, explained)))


def describe(
    project: ResolvedProject, lowered: Lowered | None = None, unresolved: Sequence[ProjectError] = ()
) -> ProjectDescription:
    """Describes all views in dependency order. Errors are part of the description and are not raised. `unresolved` has the errors of the
    views that are missing in `project` because of them."""
    lowered = lowered or lower_with_errors(project)
    circuit = lowered.circuit
    stages = plan_stages(circuit)
    append_only = append_only_inputs(circuit)
    shown: set[int] = set()
    precision = precision_notes(project)
    views = []
    for view in project.views:
        boundary = circuit.views[view.name]
        members = _members(circuit, boundary)
        errors = [error for error in lowered.errors if error.view == view.name]
        refused = _is_stand_in(circuit, boundary)
        own = [] if refused else [index for index in members if index not in shown]
        views.append(
            ViewDescription(
                name=view.name,
                kind=view.kind.replace("_", " "),
                location=str(view.location),
                reads=view.reads,
                output=_output(view),
                retracts="" if refused else retraction_reason(circuit, boundary) or "",
                nodes=tuple(_line(stages, index, all(append_only[index])) for index in own),
                shared=() if refused else tuple(index for index in members if index in shown),
                notes=_notes(view.name, project.notes, lowered.notes, precision),
                errors=tuple(map(str, errors)),
            )
        )
        shown.update(own)
    read = {name for view in project.views for name in view.reads}
    exchanges = {channel for channel in stages.last_read if channel.is_exchange}
    return ProjectDescription(
        views=tuple(views),
        # A source without readers may be read by a view that could not be resolved.
        unread_sources=()
        if unresolved
        else tuple(source.handle for source in project.sources if source.handle not in read),
        exchanges=len(exchanges),
        fingerprint="" if lowered.errors or unresolved else circuit.fingerprint,
        errors=tuple(map(str, (*unresolved, *lowered.errors))),
        notes=_other_notes(project),
    )


def _notes(view: str, *by_view: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(note for notes in by_view for note in notes.get(view, ())))


def _other_notes(project: ResolvedProject) -> tuple[str, ...]:
    views = {view.name for view in project.views}
    others = ((name, note) for name, notes in project.notes.items() if name not in views for note in notes)
    return tuple(f"{name}: {note}" if name else note for name, note in others)


def _is_stand_in(circuit: Circuit, boundary: int) -> bool:
    """Whether the content of the view is unknown, because something in it was refused."""
    below = circuit.nodes[circuit.nodes[boundary].inputs[0]]
    return isinstance(below, Constant) and not below.ipc


def _members(circuit: Circuit, boundary: int) -> list[int]:
    """The nodes of a view, inputs first, from its sources and the boundaries of the views that it reads. Its outputs come
    last."""
    members = {boundary}
    waiting = [boundary]
    while waiting:
        for index in circuit.nodes[waiting.pop()].inputs:
            if index not in members and not isinstance(circuit.nodes[index], View):
                members.add(index)
                waiting.append(index)
    outputs = {i for i, node in circuit.nodes_of(Output).items() if boundary in node.inputs}
    return sorted(members | outputs)


def _line(stages: StagePlan, index: int, append_only: bool) -> NodeLine:
    node = stages.circuit.nodes[index]
    arrivals = stages.arrivals[index]
    exchanges = tuple(_exchange(channel) for channel in arrivals)
    return NodeLine(
        index, node_text(node), stages.stage[index], exchanges, operator_of(node).state.keeps(node, append_only)
    )


def _exchange(channel: Channel | None) -> tuple[int, ...] | Literal["everyone"] | None:
    if channel is None:
        return None
    return "everyone" if channel.everyone else channel.key


def _output(view: ResolvedView) -> str:
    if view.output is None:
        return "kept, not published"
    written = view.output.written
    key = f" by {', '.join(view.output.key)}" if view.output.key else ""
    format_ = "" if written.name == "json" else f", as {written.name}"
    of_key = "" if written.key_format is None else f", its key as {written.key_format}"
    return f"topic {view.output.topic}, mode {view.output.mode}{key}{format_}{of_key}"


def _lines(description: ProjectDescription, explained: Collection[str]) -> list[str]:
    lines: list[str] = []
    for view in description.views:
        lines += _explained_lines(view) if view.name in explained else [_view_line(view)]
        lines += [f"  note: {note}" for note in view.notes]
        lines += ["  error: " + error.replace("\n", "\n        ") for error in view.errors]
        if view.name in explained:
            lines += [*_node_lines(view), ""]
    shown = {error for view in description.views for error in view.errors}
    lines += [f"error: {error}".replace("\n", "\n  ") for error in description.errors if error not in shown]
    lines += [f"note: {note}" for note in description.notes]
    for source in description.unread_sources:
        lines.append(f"note: no view reads source {source}; it is not consumed")
    if description.errors:
        lines.append(f"error: {len(description.errors)} found")
    else:
        lines.append(
            f"{len(description.views)} views, {description.exchanges} exchanges, circuit {description.fingerprint}"
        )
    return lines


def _view_line(view: ViewDescription) -> str:
    grows = "" if view.errors else "; can take rows back" if view.retracts else "; only grows"
    return (
        f"{view.kind} {view.name} ({view.location}): reads {', '.join(view.reads) or 'nothing'}; {view.output}{grows}"
    )


def _explained_lines(view: ViewDescription) -> list[str]:
    lines = [
        f"{view.kind} {view.name} ({view.location})",
        f"  reads {', '.join(view.reads) or 'nothing'}; {view.output}",
    ]
    if not view.errors:
        lines.append(f"  can take rows back: {view.retracts}" if view.retracts else "  only grows")
    return lines


def _node_lines(view: ViewDescription) -> list[str]:
    lines: list[str] = []
    if view.shared:
        lines.append(f"  shares nodes {', '.join(map(str, view.shared))}, which belong to views above")
    for node in view.nodes:
        lines += [f"    ~ {_text(exchange)}" for exchange in node.exchanges if exchange is not None]
        lines.append(f"    {node.index}: {node.text}")
        if node.trace:
            lines.append(f"       trace: {node.trace}")
    return lines


def _text(exchange: tuple[int, ...] | Literal["everyone"]) -> str:
    if exchange == "everyone":
        return "sent to every worker"
    return "exchange by " + (", ".join(f"c{column}" for column in exchange) or "nothing: all rows to one worker")


def _style(line: str) -> str:
    stripped = line.strip()
    if stripped.startswith("error:"):
        return "red"
    if stripped.startswith("note:"):
        return "yellow"
    if stripped.startswith("~"):
        return "cyan"
    if stripped.startswith("trace:"):
        return "green"
    return "" if line.startswith(" ") or not line else "bold"
