"""What `stepwell plan` prints for users: a table of views, one of outputs, and the summary. It can be read in 100 columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from base.limits import DRAIN_ROWS_MAX
from base.sizes import share_text, size_text
from coordinator.revisions.leaf_differences import LOADED_AGAIN
from coordinator.revisions.plan_parts import OutputPlan, SourcePlan, ViewPlan
from coordinator.revisions.planned import Planned

NOTHING = "Nothing would be filled, written or lost."


def revision_text(found: Planned, number: int) -> RenderableType:
    """`number`: that of the revision in force."""
    if found.is_nothing:
        return Group(Text(f"revision {number}"), *_source_lines(found), *_renames(found), Text(NOTHING))
    parts: list[RenderableType] = [Text(f"revision {number} -> {number + 1}"), *_source_lines(found)]
    parts += [_views(found), Text("")]
    parts += [_outputs(found), Text("")] if found.outputs else []
    parts += [Text(line) for line in _summary(found)]
    if found.refusals:
        parts.append(Text(""))
        parts += [Text(f"REFUSED: {refusal}", style="red") for refusal in found.refusals]
    return Group(*parts)


def revision_json(found: Planned, number: int) -> dict[str, Any]:
    """Returns what `stepwell plan` prints for programs. The names in it stay."""
    return {"revision": number, "next": number if found.is_nothing else number + 1, **found.to_json()}


def _renames(found: Planned) -> Iterator[RenderableType]:
    for view in found.views:
        if view.kind == "renamed":
            yield Text(f"view {view.name} ({view.place}): {view.happens}")


def _source_lines(found: Planned) -> Iterator[RenderableType]:
    for source in found.sources:
        for line in _of_source(source):
            yield Text(line)


def _of_source(source: SourcePlan) -> Iterator[str]:
    if source.kind == "renamed":
        yield f"source {source.handle}: renamed from {source.renamed_from}"
    if source.kind == "dropped":
        stays = "the rows that were loaded of it are deleted" if source.is_batch else "its topic stays"
        yield f"source {source.handle}: not read any more; {stays}"
    if source.kind == "new":
        yield f"source {source.handle}: new{', loaded when the change is applied' if source.is_batch else ''}"
    if source.kind == "counts_from_now" and source.counts_from is not None:
        yield f"source {source.handle}: --from-now counts it from the present positions on in {source.counts_from}"
    if source.load == "again":
        has = "" if source.loaded_rows is None else f"; the load before has {source.loaded_rows:,} rows"
        yield f"source {source.handle}: loaded again when the change is applied{has}"
    if source.has_other_files and source.kind != "dropped":
        yield f"source {source.handle}: its files have changed since they were loaded; with --reload they are loaded again"
    others = (difference for difference in source.differences if difference != LOADED_AGAIN)
    yield from (f"source {source.handle}: {difference}" for difference in others)
    if source.table and not source.refusals:
        yield f"source {source.handle}: its table is filled. {source.table}"


def _views(found: Planned) -> Table:
    table = _table("view", "what happens", "its history comes from", "rows")
    table.columns[3].justify = "right"
    unchanged = [view.name for view in found.views if view.kind == "kept"]
    for view in found.views:
        if view.kind != "kept":
            happens = Text("\n".join(_happens(view)), style="red" if view.kind == "refused" else "")
            table.add_row(Text(view.name), happens, Text("\n".join(view.history)), _rows(view))
    if unchanged:
        every = ", ".join(unchanged[:NAMES_MAX]) + (" ..." if len(unchanged) > NAMES_MAX else "")
        table.add_row(Text(_rest(len(unchanged), is_all=not table.rows)), Text(f"kept: {every}"), Text(""), Text(""))
    return table


NAMES_MAX = 8
"""Views that are kept and named. Of a hundred, nobody reads the names."""


def _happens(view: ViewPlan) -> Iterator[str]:
    place = f" ({view.place})" if view.kind in ("rebuilt", "new", "refused", "renamed") and view.place else ""
    yield view.happens + place
    if view.why:
        yield view.why
    if view.remark:
        yield f"note: {view.remark}"


def _rows(view: ViewPlan) -> Text:
    if view.kind not in ("rebuilt", "new"):
        return Text("")
    return Text("unknown" if view.rows is None else f"{view.rows:,}")


def _outputs(found: Planned) -> Table:
    table = _table("output", "mode", "receives")
    for output in found.outputs:
        if output.kind != "nothing":
            table.add_row(Text(output.topic), Text(output.mode), Text(_receives(output)))
    others = sum(output.kind == "nothing" for output in found.outputs)
    if others:
        table.add_row(Text(_rest(others, is_all=not table.rows)), Text(""), Text("nothing"))
    return table


def _rest(count: int, *, is_all: bool) -> str:
    """What stands for the rows that are not shown. `is_all`: none is."""
    return f"all {count}" if is_all else "1 other" if count == 1 else f"{count} others"


def _receives(output: OutputPlan) -> str:
    if not output.refusals:
        return output.receives
    return "REFUSED: " + "; ".join(refusal.reason for refusal in output.refusals)


def _summary(found: Planned) -> Iterator[str]:
    share = f"{share_text(found.kept_share)} of the state is kept"
    by = "" if found.share_of == "bytes" else f" ({found.kept_with_state} of {found.with_state} nodes with state)"
    disk = f" For a while about {size_text(found.disk_bytes)} more disk." if found.disk_bytes else ""
    rows = f" At most {found.rows:,} messages and rows of state are read." if found.rows else ""
    yield f"{share}{by}.{rows}{disk}"
    if found.gradual:
        yield (
            f"--gradual: what differs leaves in steps of about {DRAIN_ROWS_MAX:,} rows, from the switch on. Until all has left, outputs and "
            "views that read a changed view are partly old, and nothing can be taken back."
        )
    for view in found.dropped:
        topics = [output.topic for output in found.outputs if output.kind == "dropped" and output.view == view]
        stays = "".join(f"; its topic {topic} and the rows in it stay" for topic in topics)
        options = "".join(f" (--retract {name} takes them back)" for name in _can_be_taken_back(found, view))
        yield f"Dropped: view {view}{stays}{options}."


def _can_be_taken_back(found: Planned, view: str) -> list[str]:
    """The outputs of a dropped view whose topics can hold retractions."""
    dropped = (output for output in found.outputs if output.kind == "dropped" and output.view == view)
    return [output.handle for output in dropped if output.mode != "append"]


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
