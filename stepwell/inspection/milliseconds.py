"""Which outputs lose microseconds: timestamps are written with milliseconds where no pattern says otherwise, as `to_json` has it.

Guarantee: every column is named that can hold a moment which is no whole number of milliseconds. A column is left out only if that is proved:
its expression cuts microseconds off, or has none. So a column may be named that never holds one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from io_kafka.formats.table import FORMATS
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import TIMESTAMP, TIMESTAMP_NTZ, UnsupportedType, arrow_type
from stepwell.lowering.trees import canonical, expression_id
from stepwell.planning.plans import ResolvedProject, ResolvedView
from stepwell.project.tables import SourceSpec

MILLISECOND_US = 1000
ADVICE = (
    "Add 'timestampFormat' = 'yyyy-MM-dd HH:mm:ss.SSSSSSXXX' (of a TIMESTAMP_NTZ: 'timestampNTZFormat' = "
    "'yyyy-MM-dd HH:mm:ss.SSSSSS'), or cut the column off in the view with date_trunc('MILLISECOND', ...)"
)

Columns = Sequence[tuple[int, bool]]
"""The columns of a plan: the id of each, and whether it is proved to have whole milliseconds."""

_PASSING = frozenset({"Filter", "Sort", "GlobalLimit", "LocalLimit", "Distinct", "Deduplicate", "SubqueryAlias"})
_BOTH_SIDES = frozenset({"Inner", "Cross", "LeftOuter", "RightOuter", "FullOuter"})
_CHOICES = frozenset(
    {"Coalesce", "Greatest", "Least", "Max", "Min", "First", "Last", "AnyValue", "KnownNotNull", "KnownNullable"}
)
_COARSE_UNITS = frozenset(
    {"YEAR", "YYYY", "YY", "QUARTER", "MON", "MONTH", "MM", "WEEK", "DAY", "DD", "HOUR", "MINUTE", "SECOND", "MILLISECOND"}
)  # fmt: skip
_WHOLE_TYPES = frozenset({"byte", "short", "integer", "long"})


def precision_notes(project: ResolvedProject) -> dict[str, tuple[str]]:
    """Returns the notes for `dry-run`, by view."""
    sources = {source.handle: source for source in project.sources}
    known: dict[str, Sequence[bool]] = {}
    notes: dict[str, tuple[str]] = {}
    for view in project.views:
        known[view.name] = _prove_columns(view, sources, known)
        lossy = [] if _written_whole(view) else _lossy(view, known[view.name])
        if lossy and view.output is not None:
            which = f"columns {', '.join(lossy)}" if len(lossy) > 1 else f"column {lossy[0]}"
            notes[view.name] = (
                f"{which}: a message has milliseconds, and the microseconds that the view can hold are lost. {ADVICE}",
            )
    return notes


def _written_whole(view: ResolvedView) -> bool:
    return view.output is None or not FORMATS[view.output.written.name].datetimes_are_texts


def _lossy(view: ResolvedView, proved: Sequence[bool]) -> list[str]:
    assert view.output is not None
    patterns = view.output.written.patterns
    cut = {TIMESTAMP} if patterns.timestamp is None else set()
    cut |= {TIMESTAMP_NTZ} if patterns.timestamp_ntz is None else set()
    names = []
    for field, whole in zip(view.schema.jsonValue()["fields"], proved, strict=True):
        try:
            if not whole and _holds(arrow_type(field["type"]), cut):
                names.append(field["name"])
        except UnsupportedType:
            pass  # the column is refused by its type
    return names


def _holds(type_: pa.DataType, wanted: set[pa.DataType]) -> bool:
    if pa.types.is_nested(type_):
        return any(_holds(type_.field(i).type, wanted) for i in range(type_.num_fields))
    return type_ in wanted


def _prove_columns(
    view: ResolvedView, sources: Mapping[str, SourceSpec], known: Mapping[str, Sequence[bool]]
) -> Sequence[bool]:
    """For each column, whether all flows have whole milliseconds in it."""
    width = len(view.schema.fields)
    flows = [_columns(flow.tree, sources, known) for flow in view.flows]
    if any(columns is None or len(columns) != width for columns in flows):
        return [False] * width
    return [all(columns[place][1] for columns in flows if columns is not None) for place in range(width)]


def _columns(plan: TreeNode, sources: Mapping[str, SourceSpec], known: Mapping[str, Sequence[bool]]) -> Columns | None:
    """None for a plan of which nothing is known."""
    if plan.kind in ("LogicalRDD", "LocalRelation"):
        ids = [_id(attribute) for attribute in plan["output"]]
        whole = (
            _of_rows(plan["data"], len(ids)) if plan.kind == "LocalRelation" else _of_leaf(plan["rdd"], sources, known)
        )
        return list(zip(ids, whole, strict=True)) if len(whole) == len(ids) else None
    below = [_columns(child, sources, known) for child in plan.children]
    if any(columns is None for columns in below):
        return None
    inputs = [columns for columns in below if columns is not None]
    if plan.kind in _PASSING:
        return inputs[0]
    if plan.kind in ("Project", "Aggregate"):
        have = dict(inputs[0])
        written = plan["projectList" if plan.kind == "Project" else "aggregateExpressions"]
        return [(_id(each), _is_whole(_tree(each), have)) for each in written]
    if plan.kind == "Expand":
        have = dict(inputs[0])
        rows = [[_is_whole(_tree(each), have) for each in row] for row in plan["projections"]]
        return [(_id(each), all(whole)) for each, *whole in zip(plan["output"], *rows, strict=True)]
    if plan.kind == "Union":
        columns = zip(*inputs, strict=True)
        return [(same[0][0], all(whole for _, whole in same)) for same in columns]
    if plan.kind == "Join" and str(plan["joinType"].get("object")).rsplit(".", 1)[-1].rstrip("$") in _BOTH_SIDES:
        return [*inputs[0], *inputs[1]]
    return None


def _tree(attribute: Any) -> TreeNode:
    """An attribute of a leaf is a list of one tree."""
    tree: TreeNode = attribute[0] if isinstance(attribute, list) else attribute
    return tree


def _id(attribute: Any) -> int:
    tree = attribute[0] if isinstance(attribute, list) else attribute
    return int(tree["exprId"]["id"])


def _of_rows(data: pa.Table, width: int) -> list[bool]:
    return [_is_whole_column(data.column(place)) for place in range(width)] if data.num_columns == width else []


def _is_whole_column(column: pa.ChunkedArray) -> bool:
    if not pa.types.is_timestamp(column.type):
        return False
    us = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    cut = pc.multiply(pc.divide(us, MILLISECOND_US), MILLISECOND_US)
    return not pc.any(pc.not_equal(us, cut)).as_py()


def _of_leaf(name: str, sources: Mapping[str, SourceSpec], known: Mapping[str, Sequence[bool]]) -> Sequence[bool]:
    if name in known:
        return known[name]
    if name not in sources:
        return []
    of_records = {column for column, what in sources[name].metadata if what == "timestamp"}  # Kafka's have milliseconds
    return [field.name in of_records for field in sources[name].schema.fields]


def _is_whole(tree: TreeNode, have: Mapping[int, bool]) -> bool:
    """Whether the moments that an expression gives are whole milliseconds."""
    match tree.kind:
        case "AttributeReference":
            return have.get(expression_id(tree), False)
        case "Alias" | "AggregateExpression":
            return _is_whole(tree.children[0], have)
        case "Literal":
            return tree["value"] is None or _congruence(tree, have) == ({}, 0)
        case "TruncTimestamp":
            unit = tree.children[0]
            return unit.kind == "Literal" and str(unit["value"]).upper() in _COARSE_UNITS
        case "Cast":
            return _is_date(tree.children[0])
        case "MillisToTimestamp":
            return True
        case "SecondsToTimestamp":
            return tree.children[0].get("dataType") in _WHOLE_TYPES
        case "CreateNamedStruct":  # each value has its name before it
            return all(_is_whole(child, have) for child in tree.children[1::2])
        case "GetStructField":
            return _is_whole(tree.children[0], have)
        case "If":
            return all(_is_whole(child, have) for child in tree.children[1:])
        case kind if kind in _CHOICES:
            return all(_is_whole(child, have) for child in tree.children)
        case "PreciseTimestampConversion":
            return _congruence(tree.children[0], have) == ({}, 0)
        case _:
            return False


def _is_date(tree: TreeNode) -> bool:
    return tree.kind in ("AttributeReference", "Cast", "Literal") and tree.get("dataType") == "date"


def _congruence(tree: TreeNode, have: Mapping[int, bool]) -> tuple[dict[object, int], int] | None:
    """A number of microseconds modulo a millisecond: how often each column is in it, and a constant. None if nothing is known. So a window's
    begin, which is a moment less what is left of it over a length of whole milliseconds, is 0."""
    match tree.kind:
        case "Literal":
            value = tree["value"]
            whole = value is not None and str(value).lstrip("-").isdigit()
            return ({}, int(str(value)) % MILLISECOND_US) if whole else None
        case "AttributeReference":
            return {canonical(tree): 1}, 0
        case "PreciseTimestampConversion":
            return ({}, 0) if _is_whole(tree.children[0], have) else ({canonical(tree.children[0]): 1}, 0)
        case "Alias":
            return _congruence(tree.children[0], have)
        case "Add" | "Subtract":
            one, other = (_congruence(child, have) for child in tree.children[:2])
            return None if one is None or other is None else _sum(one, other, 1 if tree.kind == "Add" else -1)
        case "Remainder":
            return _congruence(tree.children[0], have) if _divides(tree.children[1]) else None
        case "CaseWhen":
            results = [_congruence(child, have) for child in (*tree.children[1::2], *tree.children[-1:])]
            return results[0] if all(each == results[0] for each in results) and len(tree.children) % 2 else None
        case _:
            return None


def _divides(tree: TreeNode) -> bool:
    value = tree["value"] if tree.kind == "Literal" else None
    return value is not None and str(value).isdigit() and int(str(value)) % MILLISECOND_US == 0


def _sum(
    one: tuple[dict[object, int], int], other: tuple[dict[object, int], int], sign: int
) -> tuple[dict[object, int], int]:
    times = {key: one[0].get(key, 0) + sign * other[0].get(key, 0) for key in {*one[0], *other[0]}}
    return {key: count for key, count in times.items() if count}, (one[1] + sign * other[1]) % MILLISECOND_US
