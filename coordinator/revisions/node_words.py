"""Nodes in words for users: what a node does, with the names of columns, and how two nodes differ."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, timedelta

from coordinator.revisions.document import PlanDocument
from engine.analysis.column_names import output_names
from engine.model.aggregates import Aggregate, FinalAggregate
from engine.model.circuit import View
from engine.model.event_time import TimedJoin
from engine.model.joins import Join, JoinPartials, OuterJoin, SemiJoin
from engine.model.node import Expression
from engine.model.python_call import PythonFunction
from engine.model.rows import LastByKey, Map, PythonMap, Source
from engine.operators.names import Names, named_text
from engine.operators.table import operator_of

TEXT_MAX = 90
"""The characters of one text. A longer expression is not read in a table, and `dry-run` shows it whole."""

_CALLED: Mapping[str, str] = {
    "FinalAggregate": "aggregate",
    "PartialAggregate": "sums before the join",
    "JoinPartials": "join of sums",
    "TopK": "ORDER BY and LIMIT",
    "LastByKey": "table",
    "PythonMap": "Python function",
    "ScalarValue": "value of a subquery",
    "ScalarMap": "expressions with a subquery",
    "Generate": "explode",
    "ClockValue": "the clock",
    "TemporalFilter": "filter by the clock",
    "Distinct": "DISTINCT",
    "Union": "UNION ALL",
}
"""The names of kinds of nodes that are not what a user would say. All others are their kind in small letters."""


class NodeWords:
    """The nodes of one document, in words."""

    def __init__(self, document: PlanDocument) -> None:
        self.document = document
        columns = {each.table.handle: tuple(each.table.format.schema.names) for each in document.inputs}
        self._names = output_names(document.circuit, columns, computed=True)

    def kind(self, index: int) -> str:
        """What users call the node."""
        node = self.document.circuit.nodes[index]
        if isinstance(node, Map):
            return "columns" if node.predicate is None else "filter"
        if isinstance(node, SemiJoin):
            return "NOT EXISTS or NOT IN" if node.anti else "EXISTS or IN"
        spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", node.kind).lower()
        return _CALLED.get(node.kind, spaced)

    def text(self, index: int) -> str:
        """What the node does, in the words of its operator."""
        node = self.document.circuit.nodes[index]
        if isinstance(node, Map) and node.predicate is not None:
            return self.expression(index, node.predicate)
        if isinstance(node, Join | OuterJoin | SemiJoin | JoinPartials | TimedJoin):
            return shorten(self._of_join(index, node))
        text = operator_of(node).wording.text(node)
        if isinstance(node, FinalAggregate):
            text = _OF_PARTIALS.sub("...", text)
        return shorten(named_text(text, self._read_by(index)))

    def title(self, index: int) -> str:
        """The kind and what it does."""
        node = self.document.circuit.nodes[index]
        if isinstance(node, Source | LastByKey):
            return f"the table of {node.handle}" if isinstance(node, LastByKey) else node.handle
        if isinstance(node, View):
            return node.name
        return f"{self.kind(index)} {self.text(index)}".rstrip()

    def expression(self, index: int, expression: Expression) -> str:
        """An expression of the node."""
        return shorten(named_text(_sql(expression), self._read_by(index)))

    def filters(self, index: int) -> list[str]:
        """The conditions of a Map, all of which a row has to meet."""
        node = self.document.circuit.nodes[index]
        assert isinstance(node, Map)
        if node.predicate is None:
            return []
        return [without_types(each) for each in conjuncts(named_text(node.predicate.sql, self._read_by(index)))]

    def expressions(self, index: int) -> list[str]:
        """What a Map computes, column by column."""
        node = self.document.circuit.nodes[index]
        assert isinstance(node, Map)
        read = self._read_by(index)
        return [without_types(named_text(_sql(each), read)) for each in node.projections]

    def columns(self, index: int) -> Names:
        """The names of the columns of the node's output, as far as they have one."""
        return self._names[index]

    def _of_join(self, index: int, node: Join | OuterJoin | SemiJoin | JoinPartials | TimedJoin) -> str:
        """The keys of a side are places in that side."""
        left, right = (self._names[below] for below in node.inputs[:2])
        pairs = zip(node.left_key, node.right_key, strict=True)
        on = ", ".join(f"{left[one] or f'c{one}'} = {right[other] or f'c{other}'}" for one, other in pairs)
        residual = None if isinstance(node, JoinPartials) else node.residual
        return f"on {on or 'nothing'}" + ("" if residual is None else f" if {named_text(residual.sql, left + right)}")

    def _read_by(self, index: int) -> Names:
        return tuple(name for below in self.document.circuit.nodes[index].inputs for name in self._names[below])


def _sql(expression: Expression) -> str:
    return expression.sql if expression.column is None else f"c{expression.column}"


_EPOCH = date(1970, 1, 1)
_DATE = re.compile(r"\(DATE '1970-01-01' \+ (-?[0-9]{1,6})\)")
_OURS = re.compile(r"\bspark_(?=[a-z0-9_]+\()")
_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")
_CAST = re.compile(r"CAST\(('(?:[^']|'')*'|-?[0-9.]+) AS ([A-Z]+)(?:\([0-9]+(?:, ?[0-9]+)?\))?\)")
"""A constant with its type, which a user has not written."""
_RAISES = "error('['"
"""The beginning of what raises an error of Spark's."""
_OF_PARTIALS = re.compile(r"\bs[0-9]+\b")
"""An argument of which partial sums come: it is no column of the input."""


def shorten(text: str) -> str:
    text = without_types(_without_guards(re.sub(r"\s+", " ", text)))
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 3] + "..."


def _without_guards(text: str) -> str:
    """A list without the texts of what raises an error for a row, such as one without a sequence. No user has written them so."""
    if _RAISES not in text:
        return text
    return ", ".join("..." if _RAISES in part else part for part in _parts_between(text, ", "))


def without_types(text: str) -> str:
    """Constants and functions as a user writes them."""
    text = _OURS.sub("", _CAST.sub(_constant, text))
    return _DATE.sub(lambda found: f"DATE '{_EPOCH + timedelta(int(found[1]))}'", text)


def _constant(found: re.Match[str]) -> str:
    is_number = found[2] in _NUMBERS and found[1].startswith("'")
    return found[1].strip("'") if is_number else found[1]


def conjuncts(sql: str) -> list[str]:
    """The conditions that an AND connects, each without parentheses around it. A text that cannot be divided is one condition."""
    sql = sql.strip()
    while sql.startswith("(") and _closing(sql, 0) == len(sql) - 1:
        sql = sql[1:-1].strip()
    parts = _parts_between(sql, " AND ")
    return parts if len(parts) == 1 else [each for part in parts for each in conjuncts(part)]


def _parts_between(sql: str, separator: str) -> list[str]:
    """What separators divide that stand outside of parentheses and quotes."""
    parts, begin, at = [], 0, 0
    while at < len(sql):
        if sql[at] in "('\"":
            at = _closing(sql, at)
        elif sql.startswith(separator, at):
            parts.append(sql[begin:at])
            begin = at + len(separator)
        at += 1
    return [*parts, sql[begin:]]


def _closing(sql: str, at: int) -> int:
    """Where the parenthesis or the quote that opens there is closed; the end of the text if it is not."""
    opened = sql[at]
    if opened != "(":
        end = sql.find(opened, at + 1)
        return end if end >= 0 else len(sql)
    at += 1
    while at < len(sql) and sql[at] != ")":
        at = (_closing(sql, at) if sql[at] in "('\"" else at) + 1
    return at


def difference(was: NodeWords, before: int, now: NodeWords, after: int) -> str:
    """How two nodes of one kind differ by what they do themselves; empty if they do the same."""
    old, new = was.document.circuit.nodes[before], now.document.circuit.nodes[after]
    if isinstance(old, Map) and isinstance(new, Map):
        filters = _filters(was.filters(before), now.filters(after))
        return filters or _columns(was.expressions(before), now.expressions(after))
    if isinstance(old, Aggregate | FinalAggregate) and isinstance(new, Aggregate | FinalAggregate):
        return _between_aggregates(was.columns(before), len(old.group), now.columns(after), len(new.group))
    if isinstance(old, View) and isinstance(new, View):
        keys = [", ".join(node.names[column] for column in node.key) or "none" for node in (old, new)]
        return _was_is("the key", *keys) or _was_is("the list of columns", ", ".join(old.names), ", ".join(new.names))
    if isinstance(old, PythonMap) and isinstance(new, PythonMap) and (changed := _changed_function(old, new)):
        return f"the function {changed.name} ({changed.place}) is another one now"
    return _was_is(now.kind(after), was.text(before), now.text(after))


def _filters(before: list[str], now: list[str]) -> str:
    """Spark adds conditions that follow from others (`IS NOT NULL`). They are told only if nothing else differs."""
    gone, come = [text for text in before if text not in now], [text for text in now if text not in before]
    told = [[text for text in each if not text.endswith(" IS NOT NULL")] for each in (gone, come)]
    gone, come = told if any(told) else (gone, come)
    if gone and come:
        return _was_is("the filter", " AND ".join(gone), " AND ".join(come))
    if gone or come:
        return f"the filter {shorten(' AND '.join(gone or come))}: {'left out now' if gone else 'new here'}"
    return "" if before == now else "the conditions of the filter have another order"


def _between_aggregates(before: Names, group_before: int, now: Names, group: int) -> str:
    by, by_now = (", ".join(map(str, names[:count])) for names, count in ((before, group_before), (now, group)))
    if by != by_now:
        return _was_is("GROUP BY", by or "nothing", by_now or "nothing")
    return _columns([str(name) for name in before[group_before:]], [str(name) for name in now[group:]])


def _columns(before: list[str], now: list[str]) -> str:
    """What only raises errors is not told: it follows from something else."""
    before, now = ([text for text in each if _RAISES not in text] for each in (before, now))
    gone, come = [text for text in before if text not in now], [text for text in now if text not in before]
    if gone or come:
        if gone and come:
            return _was_is("a column", ", ".join(gone), ", ".join(come))
        what = "the columns" if len(gone or come) > 1 else "the column"
        return f"{what} {', '.join(map(shorten, gone or come))}: {'left out now' if gone else 'new here'}"
    return "the columns have another order" if before != now and sorted(before) == sorted(now) else ""


def _changed_function(old: PythonMap, new: PythonMap) -> PythonFunction | None:
    known = {function.digest for function in _functions(old)}
    return next((function for function in _functions(new) if function.digest not in known), None)


def _functions(node: PythonMap) -> Iterator[PythonFunction]:
    return (function for call in node.calls for function in call.functions)


def _was_is(what: str, before: str, now: str) -> str:
    """Both are shown without the part behind " by " if only what is before it differs."""
    if before == now:
        return ""
    (head, _, tail), (head_now, _, tail_now) = before.partition(" by "), now.partition(" by ")
    if tail == tail_now:
        before, now = head, head_now
    if shorten(before) == shorten(now):
        same = next((at for at, (one, other) in enumerate(zip(before, now, strict=False)) if one != other), len(before))
        begin = before.rfind(" ", 0, same) + 1
        before, now = f"... {before[begin:]}", f"... {now[begin:]}"
    return f"{what} was {shorten(before)}, and is {shorten(now)} now"
