"""One circuit with every kind of node, each with inputs that only grow and with inputs that retract where that makes a difference.

A new kind of node joins it: `test_circuit.py` pins its JSON form, `test_descriptors.py` holds each operator to what its descriptor says, and
`test_stages.py` compares any number of workers with one.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import pyarrow as pa

from engine.model.aggregates import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    FinalAggregate,
    PartialAggregate,
    ValuesCall,
)
from engine.model.circuit import Circuit, Mode, Node, Output, Recursion, View
from engine.model.clock import CLOCK_TYPES, ClockBound, ClockFunction, ClockValue, TemporalFilter
from engine.model.event_time import (
    WATERMARK_TYPES,
    ClosingAggregate,
    ClosingSessions,
    Expiry,
    LatestTime,
    TimedDeduplicate,
    TimedJoin,
    Watermark,
)
from engine.model.joins import Join, JoinPartials, OuterJoin, SemiJoin
from engine.model.node import Expression, NodeBase
from engine.model.ordered import Sessions, SortKey, TopK, Window, WindowCall, WindowFrame
from engine.model.rows import (
    Constant,
    Deduplicate,
    Distinct,
    Generate,
    LastByKey,
    Map,
    PythonMap,
    Replicate,
    ScalarMap,
    ScalarValue,
    Source,
    Union,
)
from engine.run.exchange import to_buffer
from tests.engine.python_calls import python_call
from tests.engine.zsets import TYPES, Rows, plus, to_table

LONG, TEXT = TYPES
OF_EVENT_TIME: frozenset[type[NodeBase]] = frozenset(
    {LatestTime, Watermark, ClosingAggregate, ClosingSessions, TimedDeduplicate, TimedJoin}
)
MESSAGE = (*TYPES, pa.bool_(), pa.int32(), pa.int64())
PARTITIONS = {
    "seen": 2, "firsts": 1, "lonely": 1, "least": 1, "unmatched": 1, "tops": 2, "by_word": 3, "rest": 2, "total": 1, "sums": 2,
    "leading": 2, "behind": 1, "first": 1,
    "matched": 1, "beside": 2,
    "numbered": 2, "running": 1,
    "spreads": 2, "lists": 3,
    "often": 1, "counted": 2, "turned": 1, "three": 1, "between": 2, "common": 1,
    "whole": 1,
    "elements": 1, "places": 2, "sessions": 1, "visits": 2,
    "reached": 2, "steps": 1,
    "called": 1, "joined": 2,
    "closed": 2, "ended": 1, "once": 1, "met": 2,
    "present": 2, "aged": 1,
}  # fmt: skip
"""Of the topic of every output."""


def column(index: int, kind: pa.DataType) -> Expression:
    return Expression(f"c{index}", kind, index)


def call(function: AggregateFunction, argument: int | None = None, *, distinct: bool = False) -> AggregateCall:
    return AggregateCall(function, argument, distinct, LONG)


class _Nodes:
    """Nodes in order; each method gives the index by which later ones read the node."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def add(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def view(
        self,
        below: int,
        name: str,
        names: tuple[str, ...],
        mode: Mode,
        key: tuple[int, ...] = (),
        *,
        derived: bool = False,
    ) -> int:
        """A view and its output; one in mode `append` is not kept."""
        view = self.add(View((below,), self.nodes[below].types, name, names, mode != "append", key, derived))
        self.add(Output((view,), (), name, mode, names, key))
        return view


def every_kind() -> Circuit:
    """Sources `left` (append), `right` (upsert) and `log` (changelog without a key); outputs as in PARTITIONS."""
    make = _Nodes()
    left = make.add(Source((), TYPES, "left"))
    right = make.add(LastByKey((make.add(Source((), MESSAGE, "right", keyed=True)),), TYPES, "right", (0,)))
    log = make.add(Source((), TYPES, "log", retracts=True))
    table = pa.table({"c0": pa.array([1, 2], LONG), "c1": pa.array(["a", None], TEXT)})
    constant = make.add(Constant((), TYPES, to_buffer(table).to_pybytes()))
    _growing(make, left, constant)
    _retracting(make, left, right, log)
    _aggregates(make, left, right)
    _first_rows(make, left, log)
    _outer_joins(make, left, right, log)
    _windows(make, left, log)
    _values(make, left, "lists")
    _values(make, log, "spreads")
    _replicas(make, left, log)
    _values_of_subqueries(make, left, log)
    _generated(make, left, log)
    _sessions(make, left, log)
    _recursions(make, left, log)
    _python(make, left, log)
    _event_time(make, left)
    _clock(make, left, constant)
    return Circuit(tuple(make.nodes))


def _growing(make: _Nodes, left: int, constant: int) -> None:
    upper = (column(0, LONG), Expression("upper(c1)", TEXT))
    positive = make.add(Map((left,), TYPES, Expression("c0 > 0", pa.bool_()), upper))
    distinct = make.add(Distinct((make.add(Union((positive, constant), TYPES)),), TYPES))
    matched = make.add(SemiJoin((distinct, left), TYPES, False, (0,), (0,), (True,)))
    make.view(matched, "seen", ("id", "word"), "append")
    make.view(make.add(Deduplicate((left,), TYPES, (0,))), "firsts", ("id", "word"), "changelog", (0,))


def _retracting(make: _Nodes, left: int, right: int, log: int) -> None:
    following = make.add(Map((left,), TYPES, None, (Expression("c0 + 1", LONG), column(1, TEXT))))
    lonely = make.add(SemiJoin((left, following), TYPES, True, (0,), (0,), (False,)))  # retracts, over inputs that grow
    make.view(lonely, "lonely", ("id", "word"), "changelog")
    make.view(make.add(Deduplicate((log,), TYPES, (0,))), "least", ("id", "word"), "upsert", (0,))
    met = Expression('"c1" <= "c3"', pa.bool_())
    unmatched = make.add(SemiJoin((left, log), TYPES, True, (0,), (0,), (False,), met))
    absent = make.add(SemiJoin((unmatched, right), TYPES, True, (0,), (0,), (False,), None, True))
    make.view(absent, "unmatched", ("id", "word"), "changelog")


def _aggregates(make: _Nodes, left: int, right: int) -> None:
    top = make.add(Aggregate((left,), (TEXT, LONG, LONG), (1,), (call("max", 0), call("count", 0, distinct=True))))
    make.view(top, "tops", ("word", "top", "n"), "changelog", derived=True)
    joined = make.add(Join((left, right), (*TYPES, *TYPES), (0,), (0,), (False,)))
    pairs = make.add(Map((joined,), TYPES, None, (column(0, LONG), column(3, TEXT))))
    counted = make.add(Aggregate((pairs,), (TEXT, LONG, LONG), (1,), (call("count"), call("max", 0))))
    by_word = make.view(counted, "by_word", ("word", "n", "most"), "upsert", (0,), derived=True)
    turned = make.add(Map((by_word,), TYPES, None, (column(1, LONG), column(0, TEXT))))
    rest = make.add(Distinct((make.add(Union((left, turned), TYPES)),), TYPES))
    make.view(rest, "rest", ("id", "word"), "changelog")
    make.view(make.add(Aggregate((left,), (LONG,), (), (call("count"),))), "total", ("n",), "changelog")
    calls = (call("count"), call("sum", 0))
    partial = (LONG, *[LONG] * 4)  # the group; rows, values, and two limbs of the sum
    partials = make.add(PartialAggregate((left,), partial, (0,), calls))
    met = JoinPartials((partials, right), (*partial, *TYPES), (0,), (0,), (False,), (False, False, True, False))
    final = make.add(FinalAggregate((make.add(met),), (TEXT, LONG, LONG), (6,), calls, (LONG,), 1))
    make.view(final, "sums", ("word", "n", "total"), "changelog", derived=True)


def _first_rows(make: _Nodes, left: int, log: int) -> None:
    leading = make.add(TopK((left,), TYPES, (1,), (SortKey(0, False, False),), 0, 2))
    make.view(leading, "leading", ("id", "word"), "changelog")
    make.view(
        make.add(TopK((left,), TYPES, (), (SortKey(1, True, True),), 1, None)), "behind", ("id", "word"), "append"
    )
    make.view(make.add(TopK((log,), TYPES, (), (), 0, 1)), "first", ("id", "word"), "changelog")


def _outer_joins(make: _Nodes, left: int, right: int, log: int) -> None:
    """A left join over inputs that only grow, whose key is that of an aggregate above it, and a full join over inputs that retract."""
    both = (*TYPES, *TYPES)
    met = Expression('"c1" < "c3"', pa.bool_())
    alone = make.add(OuterJoin((left, left), both, False, (0,), (0,), (True,), met))
    counted = make.add(Aggregate((alone,), (LONG, LONG, LONG), (2,), (call("count"), call("count", 0, distinct=True))))
    make.view(counted, "matched", ("id", "n", "m"), "changelog", derived=True)
    keyed = make.add(OuterJoin((right, log), both, False, (0,), (0,), (False,), None))
    words = make.add(Map((keyed,), TYPES, None, (column(0, LONG), column(3, TEXT))))
    full = make.add(OuterJoin((words, log), both, True, (0,), (0,), (False,)))
    make.view(full, "beside", ("id", "word", "key", "name"), "changelog")


def _windows(make: _Nodes, left: int, log: int) -> None:
    before = WindowFrame("rows", None, 0)
    number = WindowCall("row_number", None, before, pa.int32())
    numbered = make.add(Window((left,), (*TYPES, pa.int32()), (1,), (SortKey(0, False, False),), (number,)))
    make.view(numbered, "numbered", ("id", "word", "n"), "changelog", derived=True)
    calls = (WindowCall("sum", 0, before, LONG), WindowCall("lead", 1, before, TEXT, -1, 1, True))
    running = make.add(Window((log,), (*TYPES, LONG, TEXT), (), (SortKey(1, True, True),), calls))
    make.view(running, "running", ("id", "word", "total", "last"), "changelog")


def _values(make: _Nodes, below: int, name: str) -> None:
    """The functions of all values, the moments, and a minimum of structs, which is how first and min_by come."""
    double, lists = pa.float64(), pa.list_(pa.field("element", LONG))
    row = pa.struct([pa.field("by", LONG), pa.field("word", TEXT)])
    rows = Expression('struct_pack("by" := -c0, "word" := c1)', row)
    columns = (column(1, TEXT), column(0, LONG), Expression("CAST(c0 AS DOUBLE)", double), rows)
    mapped = make.add(Map((below,), tuple(c.type for c in columns), None, columns))
    calls = (
        ValuesCall("collect_list", 1, False, lists),
        ValuesCall("percentile_cont", 1, False, double, None, (0.0, 0.5)),
        AggregateCall("stddev_samp", 2, False, double),
        AggregateCall("min", 3, False, row),
    )
    types = (TEXT, *(call.type for call in calls))
    made = make.add(Aggregate((mapped,), types, (0,), calls))
    make.view(made, name, ("word", "all", "median", "spread", "least"), "upsert", (0,), derived=True)


def _replicas(make: _Nodes, left: int, log: int) -> None:
    make.view(make.add(Replicate((left,), (TEXT,), 0)), "often", ("word",), "append")
    counted = make.add(Aggregate((log,), (TEXT, LONG), (1,), (call("count"),)))
    make.view(make.add(Replicate((counted,), (TEXT,), 1)), "counted", ("word",), "changelog")
    turned = make.add(Map((counted,), TYPES, None, (column(1, LONG), column(0, TEXT))))
    make.view(make.add(Replicate((turned,), (TEXT,), 0)), "turned", ("word",), "changelog")


def _values_of_subqueries(make: _Nodes, left: int, log: int) -> None:
    """`three` is null until the left has a 3; `top` is the greatest id of the log, which may be retracted."""
    found = make.add(Map((left,), (LONG,), Expression("c0 = 3", pa.bool_()), (column(0, LONG),)))
    three = make.add(ScalarValue((make.add(Distinct((found,), (LONG,))),), (LONG, pa.bool_())))
    known = ScalarMap((left, three), (*TYPES, LONG), 2, None, (column(0, LONG), column(1, TEXT), column(2, LONG)))
    make.view(make.add(known), "three", ("id", "word", "three"), "changelog")
    top = make.add(ScalarValue((make.add(Aggregate((log,), (LONG,), (), (call("max", 0),))),), (LONG, pa.bool_())))
    within = Expression("c0 <= c2 AND c0 >= coalesce(c3, 3) - 1", pa.bool_())
    between = ScalarMap((log, top, three), (TEXT, LONG), 2, within, (column(1, TEXT), column(0, LONG)))
    make.view(make.add(between), "between", ("word", "id"), "changelog")
    counted = make.add(Aggregate((log,), (TEXT, LONG), (1,), (call("count"),)))
    often = Expression("c1 * 2 >= c2", pa.bool_())
    common = ScalarMap((counted, top), (LONG, TEXT), 2, often, (column(1, LONG), column(0, TEXT)))
    make.view(make.add(common), "common", ("n", "word"), "changelog")
    calls = (call("count"), call("sum", 0))
    partials = make.add(PartialAggregate((log,), (LONG,) * 4, (), calls))
    make.view(
        make.add(FinalAggregate((partials,), (LONG, LONG), (), calls, (LONG,), 0)), "whole", ("n", "total"), "changelog"
    )


def _generated(make: _Nodes, left: int, log: int) -> None:
    """A row for each of two elements, of which one is null for some rows; and with the position beside it, over rows that retract."""
    list_ = Expression(
        "CASE WHEN c1 IS DISTINCT FROM '' THEN [c0, length(c1)] END", pa.list_(pa.field("element", LONG))
    )
    for below, name, outer in ((left, "elements", False), (log, "places", True)):
        lists = make.add(Map((below,), (LONG, list_.type), None, (column(0, LONG), list_)))
        types = (LONG, pa.int32(), LONG) if outer else (LONG, LONG)
        elements = make.add(Generate((lists,), types, (0,), 1, outer, False, outer))
        names = ("id", "place", "element") if outer else ("id", "element")
        make.view(elements, name, names, "changelog" if outer else "append")


def _sessions(make: _Nodes, left: int, log: int) -> None:
    """Rows within one second of each other are one session of their word; over rows that only grow, and rows that retract."""
    moment = pa.timestamp("us", "UTC")
    range_ = pa.struct([pa.field("start", moment), pa.field("end", moment)])
    bounds = '"start" := make_timestamp(c0 * 1000000), "end" := make_timestamp(c0 * 1000000 + 1000000)'
    present = Expression("c0 IS NOT NULL", pa.bool_())
    for below, name in ((left, "sessions"), (log, "visits")):
        own = make.add(
            Map((below,), (TEXT, range_), present, (column(1, TEXT), Expression(f"struct_pack({bounds})", range_)))
        )
        merged = make.add(Sessions((own,), (TEXT, range_), (0,), 1))
        seconds = tuple(Expression(f"epoch_us(struct_extract(c1, '{end}'))", LONG) for end in ("start", "end"))
        plain = make.add(Map((merged,), (TEXT, LONG, LONG), None, (column(0, TEXT), *seconds)))
        make.view(plain, name, ("word", "start", "end"), "changelog")


def _recursions(make: _Nodes, left: int, log: int) -> None:
    """Rows, and twice the words of the ids that follow theirs; over rows that only grow, and rows that retract."""
    leveled = (*TYPES, LONG)
    joined = Join((0, 1), (*leveled, *TYPES), (0,), (0,), (False,))
    following = (Expression("c3 + 1", LONG), column(4, TEXT), column(2, LONG))
    upper = Map((2,), leveled, Expression("c2 < 2", pa.bool_()), following)
    body = (
        Source((), leveled, "rows of a level", retracts=True),
        Source((), TYPES, "input 1", retracts=True),
        joined,
        upper,
    )
    for below, name in ((left, "reached"), (log, "steps")):
        rows = make.add(Recursion((below, below), TYPES, body, 10, 100_000))
        make.view(rows, name, ("id", "word"), "append" if name == "reached" else "changelog")


def _python(make: _Nodes, left: int, log: int) -> None:
    """Two functions beside each other, by way of Arrow and of pickles; over rows that only grow, and rows that retract."""
    calls = (
        python_call("row", lambda number: None if number is None else number * 2, LONG, 0, digest="a"),
        python_call("pickled row", lambda *values: repr(values), TEXT, 1, 0, digest="b"),
    )
    for below, name in ((left, "called"), (log, "joined")):
        called = make.add(PythonMap((below,), (*TYPES, LONG, TEXT), calls))
        make.view(called, name, ("id", "word", "double", "text"), "append" if name == "called" else "changelog")


def _event_time(make: _Nodes, left: int) -> None:
    """The time of a row is two seconds more than its id, so that no id is late at once. The watermark is one second behind."""
    moment = pa.timestamp("us", "UTC")
    range_ = pa.struct([pa.field("start", moment), pa.field("end", moment)])
    time = Expression("make_timestamp((c0 + 2) * 1000000)", moment)
    timed = make.add(Map((left,), (TEXT, moment, LONG), None, (column(1, TEXT), time, column(0, LONG))))
    latest = make.add(LatestTime((timed,), (LONG,), 1))
    watermark = make.add(Watermark((latest,), WATERMARK_TYPES, (1000,)))
    doubled = AggregateCall("avg", 2, True, pa.float64())
    lists = ValuesCall("collect_list", 2, False, pa.list_(pa.field("element", LONG)))
    calls = (call("count"), doubled, lists)
    types = (moment, TEXT, *(each.type for each in calls))
    closed = make.add(ClosingAggregate((timed, watermark), types, (1, 0), calls, 0))
    make.view(closed, "closed", ("at", "word", "n", "mean", "all"), "append")
    ends = '"start" := c1, "end" := c1 + INTERVAL 1 SECOND'
    own = make.add(
        Map((timed,), (TEXT, range_), Expression("c1 IS NOT NULL", pa.bool_()),
            (column(0, TEXT), Expression(f"struct_pack({ends})", range_)))
    )  # fmt: skip
    over = make.add(ClosingSessions((own, watermark), (TEXT, range_), (0,), 1))
    seconds = tuple(Expression(f"epoch_us(struct_extract(c1, '{end}'))", LONG) for end in ("start", "end"))
    plain = make.add(Map((over,), (TEXT, LONG, LONG), None, (column(0, TEXT), *seconds)))
    make.view(plain, "ended", ("word", "start", "end"), "append")
    once = make.add(TimedDeduplicate((timed, watermark), (TEXT, moment, LONG), (0,), 1, 1_000_000, 0))
    make.view(once, "once", ("word", "at", "id"), "append")
    met = TimedJoin(
        (timed, own, watermark), (TEXT, moment, LONG, TEXT, range_), (0,), (0,), (False,), Expression("c1 < c4.end", pa.bool_()),
        True, True, 1, 1, Expiry(1, 1_000_000), Expiry(1, -1_000_000),
    )  # fmt: skip
    make.view(make.add(met), "met", ("word", "at", "id", "other", "range"), "append")


def _clock(make: _Nodes, left: int, constant: int) -> None:
    """A row is there from three seconds before its id to one second after it, and its age is the clock minus its id."""
    clock = make.add(ClockValue((constant,), CLOCK_TYPES))
    seconds = ClockFunction("divide", 1_000_000)
    bounds = (
        ClockBound((seconds, ClockFunction("add", 3)), ">=", 0),
        ClockBound((seconds, ClockFunction("add", -1)), "<=", 0),
    )
    make.view(make.add(TemporalFilter((left, clock), TYPES, bounds)), "present", ("id", "word"), "changelog")
    age = Expression("epoch_us(c2) // 1000000 - c0", LONG)
    aged = ScalarMap((left, clock), (LONG, TEXT), 2, None, (age, column(1, TEXT)))
    make.view(make.add(aged), "aged", ("age", "word"), "changelog")


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


STEPS = 4
ROWS_MAX = 12
_WORDS = (None, "", "a", "b", "ä")


def history(seed: int, length: int = STEPS) -> list[dict[str, pa.Table]]:
    """Some steps, with rows enough that most operators meet equal keys in one step and in several: `left` only grows, `right` sets and deletes
    keys, `log` takes back some of what it said."""
    chance = random.Random(seed)
    said: Rows = Counter()
    steps: list[dict[str, pa.Table]] = []
    for step in range(length):
        log = Counter(dict.fromkeys(chance.sample(sorted(said, key=repr), len(said) // 2), -1))
        log.update(_rows(chance))
        log = Counter({row: weight for row, weight in log.items() if weight})
        said = plus(said, log)
        messages = [(chance.randint(-2, 4), chance.choice("abä"), chance.random() < 0.3) for _ in range(5)]
        steps.append(Input(_rows(chance), messages, log).tables(step * len(messages)))
    return steps


def _rows(chance: random.Random) -> Rows:
    count = chance.randint(0, ROWS_MAX)
    return Counter((chance.choice((None, -1, 0, 1, 2, 3, 4)), chance.choice(_WORDS)) for _ in range(count))


def rows_everywhere() -> dict[str, pa.Table]:
    """One step in which every node has rows."""
    rows: Rows = Counter({(1, "a"): 1, (2, "b"): 1, (3, None): 1})
    return Input(rows, [(1, "a", False), (3, "b", False)], Counter({(2, "a"): 1})).tables(0)
