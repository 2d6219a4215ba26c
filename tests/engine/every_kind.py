"""One circuit with every kind of node, each with inputs that only grow and with inputs that retract where that makes a difference.

A new kind of node joins it: `test_circuit.py` pins its JSON form, `test_descriptors.py` holds each operator to what its descriptor says, and
`test_stages.py` compares any number of workers with one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from engine.circuit import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Circuit,
    Constant,
    Deduplicate,
    Distinct,
    Expression,
    FinalAggregate,
    Join,
    JoinPartials,
    LastByKey,
    Map,
    Node,
    Output,
    PartialAggregate,
    SemiJoin,
    Source,
    Union,
    View,
)
from engine.parcels import to_bytes
from tests.engine.zsets import TYPES, Rows, histories, to_table

LONG, TEXT = TYPES
MESSAGE = (*TYPES, pa.bool_(), pa.int32(), pa.int64())
PARTITIONS = {"seen": 2, "firsts": 1, "by_word": 3, "rest": 2, "total": 1, "sums": 2, "unmatched": 1}


def column(index: int, kind: pa.DataType) -> Expression:
    return Expression(f"c{index}", kind, index)


def call(function: AggregateFunction, argument: int | None = None, *, distinct: bool = False) -> AggregateCall:
    return AggregateCall(function, argument, distinct, LONG)


class _Nodes:
    """Nodes in order; `add` gives the index by which later ones read it."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def add(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1


def every_kind() -> Circuit:
    """Sources `left` (append), `right` (upsert) and `log` (changelog without a key); outputs as in PARTITIONS."""
    make = _Nodes()
    left = make.add(Source((), TYPES, "left"))
    right = make.add(LastByKey((make.add(Source((), MESSAGE, "right", keyed=True)),), TYPES, "right", (0,)))
    log = make.add(Source((), TYPES, "log", retracts=True))
    table = pa.table({"c0": pa.array([1, 2], LONG), "c1": pa.array(["a", None], TEXT)})
    constant = make.add(Constant((), TYPES, to_bytes(table)))
    _growing(make, left, constant)
    _retracting(make, left, right, log)
    _aggregates(make, left, right)
    return Circuit(tuple(make.nodes))


def _growing(make: _Nodes, left: int, constant: int) -> None:
    positive = make.add(
        Map((left,), TYPES, Expression("c0 > 0", pa.bool_()), (column(0, LONG), Expression("upper(c1)", TEXT)))
    )
    distinct = make.add(Distinct((make.add(Union((positive, constant), TYPES)),), TYPES))
    matched = make.add(SemiJoin((distinct, left), TYPES, False, (0,), (0,), (True,)))
    seen = make.add(View((matched,), TYPES, "seen", ("id", "word"), False))
    make.add(Output((seen,), (), "seen", "append", ("id", "word")))
    first = make.add(View((make.add(Deduplicate((left,), TYPES, (0,))),), TYPES, "firsts", ("id", "word"), True, (0,)))
    make.add(Output((first,), (), "firsts", "changelog", ("id", "word"), (0,)))


def _retracting(make: _Nodes, left: int, right: int, log: int) -> None:
    make.add(View((make.add(Deduplicate((log,), TYPES, (0,))),), TYPES, "least", ("id", "word"), True, (0,)))
    met = Expression('"c1" <= "c3"', pa.bool_())
    unmatched = make.add(SemiJoin((left, log), TYPES, True, (0,), (0,), (False,), met))
    absent = make.add(SemiJoin((unmatched, right), TYPES, True, (0,), (0,), (False,), None, True))
    view = make.add(View((absent,), TYPES, "unmatched", ("id", "word"), True))
    make.add(Output((view,), (), "unmatched", "changelog", ("id", "word")))


def _aggregates(make: _Nodes, left: int, right: int) -> None:
    make.add(Aggregate((left,), (TEXT, LONG, LONG), (1,), (call("max", 0), call("count", 0, distinct=True))))
    joined = make.add(Join((left, right), (*TYPES, *TYPES), (0,), (0,), (False,)))
    pairs = make.add(Map((joined,), TYPES, None, (column(0, LONG), column(3, TEXT))))
    counted = make.add(Aggregate((pairs,), (TEXT, LONG, LONG), (1,), (call("count"), call("max", 0))))
    names = ("word", "n", "most")
    by_word = make.add(View((counted,), (TEXT, LONG, LONG), "by_word", names, True, (0,), derived=True))
    make.add(Output((by_word,), (), "by_word", "upsert", names, (0,)))
    turned = make.add(Map((by_word,), TYPES, None, (column(1, LONG), column(0, TEXT))))
    rest = make.add(Distinct((make.add(Union((left, turned), TYPES)),), TYPES))
    make.add(
        Output((make.add(View((rest,), TYPES, "rest", ("id", "word"), True)),), (), "rest", "changelog", ("id", "word"))
    )
    total = make.add(
        View((make.add(Aggregate((left,), (LONG,), (), (call("count"),))),), (LONG,), "total", ("n",), True)
    )
    make.add(Output((total,), (), "total", "changelog", ("n",)))
    calls = (call("count"), call("sum", 0))
    partials = make.add(PartialAggregate((left,), (LONG, *[LONG] * 4), (0,), calls))
    met = make.add(
        JoinPartials((partials, right), (LONG, *[LONG] * 4, *TYPES), (0,), (0,), (False,), (False, False, True, False))
    )
    final = FinalAggregate((met,), (TEXT, LONG, LONG), (6,), calls, (LONG,), 1)
    sums = make.add(View((make.add(final),), (TEXT, LONG, LONG), "sums", ("word", "n", "total"), True, derived=True))
    make.add(Output((sums,), (), "sums", "changelog", ("word", "n", "total")))


@dataclass(frozen=True)
class Input:
    """What comes in one step."""

    left: Rows
    right: list[tuple[int, str | None, bool]]
    log: Rows

    def tables(self, offset: int) -> dict[str, pa.Table]:
        """By source; the messages of `right` begin at `offset`."""
        messages = [
            (key, None if gone else word, gone, 0, offset + i) for i, (key, word, gone) in enumerate(self.right)
        ]
        return {
            "left": to_table(self.left, TYPES),
            "right": to_table(messages, MESSAGE),
            "log": to_table(self.log, TYPES),
        }


_MESSAGES = st.lists(st.tuples(st.integers(-2, 4), st.sampled_from(["a", "b", "ä"]), st.booleans()), max_size=4)


@st.composite
def inputs(draw: st.DrawFn) -> list[dict[str, pa.Table]]:
    """Some steps: `left` only grows, `right` sets and deletes keys, `log` retracts."""
    left, log = draw(histories(grow=True)), draw(histories())
    steps: list[dict[str, pa.Table]] = []
    offset = 0
    for i in range(max(len(left), len(log))):
        nothing: Counter[tuple[Any, ...]] = Counter()
        step = Input(left[i] if i < len(left) else nothing, draw(_MESSAGES), log[i] if i < len(log) else nothing)
        steps.append(step.tables(offset))
        offset += len(step.right)
    return steps
