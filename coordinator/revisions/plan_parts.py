"""What `stepwell plan` tells, as plain data: of each source, view and output of a changed project, and what is refused.

`to_json` gives stable names, on which programs may rely. The texts are for users.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from coordinator.revisions.document import CountsFrom
from io_kafka.offsets import TopicPartition

ViewKind = Literal["kept", "kept_gets_changes", "rebuilt", "new", "renamed", "dropped", "refused"]
OutputKind = Literal[
    "nothing",
    "difference",
    "append_difference",
    "new_flows",
    "other_columns",
    "new_topic",
    "from_switch",
    "taken_back",
    "dropped",
    "refused",
]
SourceKind = Literal["kept", "changed", "new", "renamed", "dropped", "counts_from_now"]
LoadKind = Literal["", "first", "again"]
RefusalCode = Literal[
    "expired_input", "compacted_input", "grown_input", "unknown_start", "missing_topic", "remade_topic",
    "topic_of_another_view", "other_mode", "other_key", "other_format",
    "append_over_event_time", "topic_not_empty", "topic_of_before", "too_many_nodes", "former_result", "filled_with_nulls", "refused_schema",
]  # fmt: skip


@dataclass(frozen=True)
class PlanRefusal:
    """`subject`: what is refused, such as "view late". `place`: its file and line, or empty. `partitions`: where messages are missing, with
    how many offsets."""

    code: RefusalCode
    subject: str
    place: str
    reason: str
    way_out: str
    partitions: tuple[tuple[TopicPartition, int], ...] = ()

    def __str__(self) -> str:
        where = f" ({self.place})" if self.place else ""
        return f"{self.subject}{where}: {self.reason}. {self.way_out}."

    def to_json(self) -> dict[str, Any]:
        missing = [
            {"topic": where.topic, "partition": where.partition, "offsets": count} for where, count in self.partitions
        ]
        return {
            "code": self.code,
            "subject": self.subject,
            "place": self.place,
            "reason": self.reason,
            "way_out": self.way_out,
            "missing": missing,
        }


@dataclass(frozen=True)
class Count:
    """How many of a view's nodes are kept, and how many of those with state."""

    kept: int
    nodes: int
    kept_with_state: int
    with_state: int

    def to_json(self) -> dict[str, int]:
        return {
            "kept": self.kept,
            "all": self.nodes,
            "kept_with_state": self.kept_with_state,
            "with_state": self.with_state,
        }


@dataclass(frozen=True, kw_only=True)
class ViewPlan:
    """`happens`: what is done, in words. `first`: the first node that differs. `why`: what is different there. `gets_from`: the changed views
    whose differences it gets. `history`: where what it lacks comes from, a text for each place. `rows`: how many messages and rows
    of state are read for it at most; None if unknown. `remark`: what the user should know of it."""

    name: str
    kind: ViewKind
    place: str
    happens: str
    renamed_from: str | None = None
    first: str = ""
    why: str = ""
    gets_from: tuple[str, ...] = ()
    history: tuple[str, ...] = ()
    rows: int | None = 0
    nodes: Count = Count(0, 0, 0, 0)
    remark: str = ""
    refusals: tuple[PlanRefusal, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "view": self.name,
            "kind": self.kind,
            "place": self.place,
            "happens": self.happens,
            "renamed_from": self.renamed_from,
            "first": self.first,
            "why": self.why,
            "gets_from": list(self.gets_from),
            "history": list(self.history),
            "rows": self.rows,
            "nodes": self.nodes.to_json(),
            "remark": self.remark,
            "refused": [refusal.to_json() for refusal in self.refusals],
        }


@dataclass(frozen=True, kw_only=True)
class OutputPlan:
    """`receives`: what its topic gets, in words. `held_if`: what only the data can tell, and what holds the change then; empty if nothing."""

    handle: str
    topic: str
    mode: str
    view: str
    kind: OutputKind
    receives: str
    rows_max: int | None = None
    held_if: str = ""
    refusals: tuple[PlanRefusal, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "output": self.handle,
            "topic": self.topic,
            "mode": self.mode,
            "view": self.view,
            "kind": self.kind,
            "receives": self.receives,
            "rows_max": self.rows_max,
            "held_if": self.held_if,
            "refused": [refusal.to_json() for refusal in self.refusals],
        }


@dataclass(frozen=True, kw_only=True)
class SourcePlan:
    """`differences`: a text for each property and column. `table`: where the rows of its table come from, if the table is filled; otherwise
    empty. `counts_from`: None if all messages count. `is_batch`: whether it is a batch table. `load`: whether that is loaded, for the first
    time or again; otherwise empty. `loaded_rows`: of the load that it has; None without any. `has_other_files`: its files are not those that
    were loaded, and it keeps its load."""

    handle: str
    kind: SourceKind
    renamed_from: str | None = None
    differences: tuple[str, ...] = ()
    table: str = ""
    counts_from: CountsFrom | None = None
    rows: int | None = 0
    refusals: tuple[PlanRefusal, ...] = ()
    is_batch: bool = False
    load: LoadKind = ""
    loaded_rows: int | None = None
    has_other_files: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.handle,
            "kind": self.kind,
            "renamed_from": self.renamed_from,
            "differences": list(self.differences),
            "table": self.table,
            "counts_from": None if self.counts_from is None else self.counts_from.to_json(),
            "rows": self.rows,
            "is_batch": self.is_batch,
            "load": self.load,
            "loaded_rows": self.loaded_rows,
            "has_other_files": self.has_other_files,
            "refused": [refusal.to_json() for refusal in self.refusals],
        }
