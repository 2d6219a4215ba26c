"""Recursion (WITH RECURSIVE): rows of level 0, and what a query makes of the rows of each level for the next one, until a level has no row.

Level l+1 is made of level l, so one could keep a circuit for each level. Instead every row carries its level as a column, and the body is one
circuit over the rows of all levels. Let R be all rows with their levels, A the rows of level 0, B the other inputs, and Q the body, which passes
levels on:

    R = A at level 0  +  Q(R, B) one level up

A step changes A and B. The body is an incremental circuit, so it is run with these changes first, which gives what they change in all levels
at once. Its output, one level up, is a change of R, with which the body runs again, until nothing changes any more. After round k the
levels up to k are what they are in the end, so there are at most as many rounds as levels.

Why the operators of the body may meet what R is between two rounds: it is always A + Q(an earlier R, B) one level up, which is a
multiset if the earlier R is one. So no weight is ever negative, and each operator sees the changes of a table.

The rows of a round would have to be exchanged if the body ran on several workers. So the recursion runs on one, which owns slot 0. The rows of B
are stored once, for all levels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Int64s
from engine.errors import DataError
from engine.model.circuit import Recursion
from engine.model.node import NodeBase
from engine.model.numbers import TRACES_MAX
from engine.operators.arrangement import Everyone, Key, on_one_worker
from engine.operators.context import StepContext
from engine.operators.descriptor import Growth, NoContent, Operator, OutputFacts, StateUse, Wording
from engine.operators.error_rows import ErrorRows
from engine.operators.facts import PartFacts
from engine.operators.names import OF_FIRST, ColumnNames
from engine.operators.scalar import tell_again, tells_a_change
from engine.rows import zset
from engine.state.runs import as_rows, as_zset

COUNTS = 0  # the trace with the number of rows of each level
BODY_TRACES_FIRST = 1  # the traces from here on are those of the body's nodes, in their order
BODY_TRACES_MAX = TRACES_MAX - BODY_TRACES_FIRST


Parts = Mapping[type[NodeBase], Operator[Any]]
"""The operators that a body may have, by the type of their node."""


class LevelLimit(DataError):
    """A recursion has rows in a level that it may not have. Spark fails too. These are the error rows."""

    is_of_rows = True

    @classmethod
    def of(cls, levels_max: int) -> LevelLimit:
        return cls(
            f"[RECURSION_LEVEL_LIMIT_EXCEEDED] Recursion level limit {levels_max} reached but query has not exhausted.",
            "Bound the depth in the recursive part (WHERE level < n), or allow more: WITH RECURSIVE name MAX RECURSION LEVEL n AS (...).",
        )


class RowLimit(DataError):
    """A recursion has more rows than it may have. Spark fails too. No row can be left out so that the others go on (docs/decisions/0089)."""

    @classmethod
    def of(cls, rows_max: int) -> RowLimit:
        return cls(
            f"[RECURSION_ROW_LIMIT_EXCEEDED] Recursion row limit {rows_max} reached but query has not exhausted.",
            "Take fewer rows into the recursion, or bound its depth.",
        )


def step_recursion(parts: Parts, node: Recursion, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    """Raises LevelLimit and RowLimit, and the errors of the body's operators. If the step counts error rows, those of the body are counted, and
    the rows of the first level that may have none; only RowLimit is raised."""
    if not context.step.owns_keyless:
        return zset.empty(node.types)
    anchor, *others = inputs
    body = _Body(parts, node, context)
    if not anchor.num_rows and not any(body.tells_a_change(place, other) for place, other in enumerate(others)):
        return zset.empty(node.types)
    counts = _Counts(node, context)
    change = zset.consolidate(_with_levels(anchor, np.zeros(anchor.num_rows, np.int64)))
    whole = [change]
    for final in range(node.levels_max + 1):
        counts.add(change)
        counts.check_rows(final)
        made = body.run([_below(change, node.levels_max), *others])
        others = [body.after_first_round(place, other) for place, other in enumerate(others)]
        change = _one_level_up(zset.consolidate(made))
        if not change.num_rows:
            break
        whole.append(change)
    assert not change.num_rows, "a round changed a level that was final"
    if context.errors is None:
        counts.check_levels()
    counts.save(context)
    rows = _without_last_level(node, zset.consolidate(zset.add(whole)), context.errors)
    return zset.consolidate(zset.project(rows, range(len(node.types))))


def _without_last_level(node: Recursion, rows: pa.Table, errors: ErrorRows | None) -> pa.Table:
    """The rows of the levels that may have rows. Those of the level after them are error rows."""
    if errors is None or not rows.num_rows:
        return rows
    beyond = pa.array(_levels_of(rows) >= node.levels_max)
    errors.add(rows.filter(beyond), LevelLimit.of(node.levels_max))
    return rows.filter(pc.invert(beyond))


def _with_levels(rows: pa.Table, levels: Int64s) -> pa.Table:
    return zset.build([*zset.rows_of(rows), pa.array(levels)], zset.weights_of(rows))


def _levels_of(rows: pa.Table) -> Int64s:
    """The last column before the weight."""
    levels: Int64s = zset.rows_of(rows)[-1].to_numpy()
    return levels


def _one_level_up(rows: pa.Table) -> pa.Table:
    return zset.build([*zset.rows_of(rows)[:-1], pa.array(_levels_of(rows) + 1)], zset.weights_of(rows))


def _below(rows: pa.Table, level: int) -> pa.Table:
    return rows.filter(pa.array(_levels_of(rows) < level))


class _Counts:
    """The number of rows of each level. `stored`: before the step; `now`: with the changes that were added."""

    def __init__(self, node: Recursion, context: StepContext) -> None:
        self._node = node
        self._trace = context.trace(COUNTS, (pa.int64(),), ())
        self._stored = np.zeros(node.levels_max + 1, np.int64)
        stored = as_zset(self._trace.scan())
        np.add.at(self._stored, _levels_of(stored), zset.weights_of(stored))
        self._now = self._stored.copy()

    def add(self, change: pa.Table) -> None:
        np.add.at(self._now, _levels_of(change), zset.weights_of(change))

    def check_rows(self, final: int) -> None:
        """Raises RowLimit if the levels up to `final`, which no later round changes, have too many rows. So a recursion that multiplies
        its rows ends before they fill the memory."""
        if int(self._now[: final + 1].sum()) >= self._node.rows_max:
            raise RowLimit.of(self._node.rows_max)

    def check_levels(self) -> None:
        if self._now[-1]:
            raise LevelLimit.of(self._node.levels_max)

    def save(self, context: StepContext) -> None:
        delta = self._now - self._stored
        moved = np.flatnonzero(delta)
        if len(moved):
            rows = zset.build([pa.array(moved.astype(np.int64))], delta[moved])
            self._trace.append(as_rows(rows), context.key(0, ()).hashes(rows))


class _Body:
    """The body's operators in one step. They run once in each round."""

    def __init__(self, parts: Parts, node: Recursion, context: StepContext) -> None:
        self._nodes = node.body
        self._parts = parts
        self._sources = len(node.inputs)
        self._values: set[int] = set()
        self._contexts: dict[int, StepContext] = {}
        only_grows = [all(context.append_only)] * self._sources
        first = BODY_TRACES_FIRST
        for index in range(self._sources, len(node.body)):
            part = node.body[index]
            operator = parts[type(part)]
            grow = tuple(only_grows[i] for i in part.inputs)
            only_grows.append(all(grow) and operator.growth.retraction(part) is None)
            colocation: tuple[Key | None, ...] = ((),) * len(part.inputs)
            exchanges = operator.arrange(part, colocation).exchanges
            self._values |= {
                i - 1 for i, told in zip(part.inputs, exchanges, strict=True) if isinstance(told, Everyone)
            }
            self._contexts[index] = replace(context, part=PartFacts(grow, colocation, first))
            assert operator.state.traces_in_recursion is not None
            first += operator.state.traces_in_recursion

    def run(self, changes: Sequence[pa.Table]) -> pa.Table:
        """The change of the body's output. `changes`: of the rows with levels, then of the other inputs."""
        made = list(changes)
        for index in range(self._sources, len(self._nodes)):
            part = self._nodes[index]
            step = self._parts[type(part)].step
            assert step is not None
            result = step(part, [made[i] for i in part.inputs], self._contexts[index])
            made.append(result.cast(zset.schema_of(part.types)))
        return made[-1]

    def tells_a_change(self, place: int, rows: pa.Table) -> bool:
        """Whether the step changes an input besides the first. A value is told in every step, and twice if it has changed."""
        return tells_a_change(rows) if place in self._values else bool(rows.num_rows)

    def after_first_round(self, place: int, rows: pa.Table) -> pa.Table:
        """What an input has in later rounds: no change. A value is told again, as the one after the step."""
        return tell_again(rows) if place in self._values else rows.slice(0, 0)


def recursion_over(operators: Iterable[Operator[Any]]) -> Operator[Recursion]:
    """The descriptor of a recursion whose body may have those of the operators that say so."""
    parts = {operator.node: operator for operator in operators if operator.state.traces_in_recursion is not None}

    def retraction(node: Recursion) -> str | None:
        reasons = (parts[type(part)].growth.retraction(part) for part in node.body[len(node.inputs) :])
        return next((reason for reason in reasons if reason is not None), None)

    def step(node: Recursion, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
        return step_recursion(parts, node, inputs, context)

    return Operator(
        node=Recursion,
        implementation_version=1,
        step=step,
        arrange=lambda node, inputs: on_one_worker(inputs),
        output=OutputFacts(
            unique_key=lambda node, inputs: None,
            comes_without_input=lambda node: False,
            counts_errors=lambda node: True,
        ),
        growth=Growth(
            retraction=retraction,
            is_needed=False,
            is_relied_on=lambda node: any(
                parts[type(part)].growth.is_relied_on(part) for part in node.body[len(node.inputs) :]
            ),
        ),
        state=StateUse(
            keeps=lambda node, append_only: (
                "what the joins of the recursive part keep, for all levels, and the number of rows of each level"
            ),
            content=NoContent(),
            fed=None,
            traces_in_recursion=None,
        ),
        wording=Wording(
            # What its expressions read are the columns of nodes in its body, and an error does not say of which one.
            columns=ColumnNames(OF_FIRST.output, read=lambda inputs: ()),
            text=lambda node: (
                f"of at most {node.levels_max} levels: {', '.join(part.kind for part in node.body[len(node.inputs) :])}"
            ),
            user_name=lambda node: None,
        ),
    )
