"""Window compared with its definition, which goes row by row. The operator works on changes, and on all partitions at once."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import DataError
from engine.model.ordered import SortKey, Window, WindowCall, WindowFrame
from engine.operators import window as window_module
from engine.operators.aggregate import ResultOverflow
from engine.operators.window import ROWS_MAX, WINDOW, step_window
from engine.rows import zset
from engine.state.store import DictStore
from tests.engine.contexts import context_of
from tests.engine.zsets import Rows, plus, to_rows, to_table
from tests.examples import examples

TYPES = (pa.int64(), pa.int32(), pa.float64(), pa.string())
KEY, BY, NUMBER, WORD = range(4)
NAN = float("nan")
ROWS = st.tuples(
    st.sampled_from([None, 0, 1]),
    st.sampled_from([None, -2, 0, 1, 2, 5]),
    st.sampled_from([None, 0.0, 1.5, -1.0, 1e300, 1e-300, float("inf"), NAN]),
    st.sampled_from([None, "", "a", "ä"]),
)
BEGIN, RUNNING, WHOLE = WindowFrame("rows", None, 0), WindowFrame("range", None, 0), WindowFrame("range", None, None)
FRAMES = [
    BEGIN, RUNNING, WHOLE, WindowFrame("rows", -1, 1), WindowFrame("rows", -3, -2), WindowFrame("rows", 1, None), WindowFrame("rows", 2, 1),
    WindowFrame("range", 0, None), WindowFrame("range", -2, 1), WindowFrame("range", 1, 3), WindowFrame("range", None, -1),
]  # fmt: skip
LONG, INT, DOUBLE, TEXT = pa.int64(), pa.int32(), pa.float64(), pa.string()
RANKS = [
    WindowCall("row_number", None, BEGIN, INT), WindowCall("rank", None, BEGIN, INT), WindowCall("dense_rank", None, BEGIN, INT),
    WindowCall("percent_rank", None, BEGIN, DOUBLE), WindowCall("cume_dist", None, BEGIN, DOUBLE), WindowCall("ntile", None, BEGIN, INT, 3),
]  # fmt: skip
OTHERS = [
    WindowCall("lead", WORD, BEGIN, TEXT, offset, default, ignore)
    for offset, default, ignore in [
        (1, None, False),
        (-2, WORD, False),
        (2, None, True),
        (-1, WORD, True),
        (0, None, False),
    ]
]
ORDERS = [
    (SortKey(BY, True, True),), (SortKey(BY, False, False),), (SortKey(BY, True, False),), (SortKey(NUMBER, False, True),),
    (SortKey(WORD, False, False), SortKey(BY, True, True)), (),
]  # fmt: skip


def of_frame(frame: WindowFrame) -> list[WindowCall]:
    """Every function that reads a frame, over this one."""
    values = [
        WindowCall(name, WORD, frame, TEXT, offset, None, ignore)  # type: ignore[arg-type]
        for name, offset in (("first_value", 0), ("last_value", 0), ("nth_value", 2))
        for ignore in (False, True)
    ]
    totals = [
        WindowCall("count", None, frame, LONG), WindowCall("count", WORD, frame, LONG), WindowCall("sum", BY, frame, LONG),
        WindowCall("avg", BY, frame, DOUBLE), WindowCall("sum", NUMBER, frame, DOUBLE), WindowCall("avg", NUMBER, frame, DOUBLE),
        WindowCall("min", NUMBER, frame, DOUBLE), WindowCall("max", WORD, frame, TEXT), WindowCall("min", WORD, frame, TEXT),
        WindowCall("max", BY, frame, INT),
    ]  # fmt: skip
    return [*values, *totals]


def window(partition: tuple[int, ...], order: tuple[SortKey, ...], calls: list[WindowCall]) -> Window:
    return Window((0,), (*TYPES, *(call.type for call in calls)), partition, order, tuple(calls))


# The definition


def place(value: Any, ascending: bool, nulls_first: bool) -> tuple[Any, ...]:
    """What a value is ordered by: Spark's order of values, with NaN above all."""
    if value is None:
        return (0 if nulls_first else 2,)
    if isinstance(value, str):
        codes = [*(byte + 1 for byte in value.encode()), 0]
        return (1, codes if ascending else [-code for code in codes])
    above = 1 if isinstance(value, float) and math.isnan(value) else 0
    pair = (above, 0 if above else value)
    return (1, *(pair if ascending else (-pair[0], -pair[1])))


def definition(node: Window, content: Rows) -> Rows:
    canonical = list(named(to_rows(zset.consolidate(to_table(content, TYPES)))))
    partitions: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for row in canonical:
        partitions.setdefault(tuple(row[c] for c in node.partition), []).extend([row] * content[row])
    result: Rows = Counter()
    for rows in partitions.values():
        where = [tuple(place(row[k.column], k.ascending, k.nulls_first) for k in node.order) for row in rows]
        between = [tuple(place(row[k.column], k.ascending, k.nulls_first) for k in node.ties) for row in rows]
        in_order = sorted(
            range(len(rows)), key=lambda i: (where[i], between[i])
        )  # stable: ties stay in canonical order
        rows, where = [rows[i] for i in in_order], [where[i] for i in in_order]
        for i, row in enumerate(rows):
            result[(*row, *(value(node, call, rows, where, i) for call in node.calls))] += 1
    return result


def value(node: Window, call: WindowCall, rows: list[Any], where: list[Any], i: int) -> Any:
    peers = [j for j, w in enumerate(where) if w == where[i]]
    count = len(rows)
    match call.function:
        case "row_number":
            return i + 1
        case "rank":
            return peers[0] + 1
        case "dense_rank":
            return len({repr(w) for w in where[: peers[0]]}) + 1
        case "percent_rank":
            return peers[0] / (count - 1) if count > 1 else 0.0
        case "cume_dist":
            return (peers[-1] + 1) / count
        case "ntile":
            tiles = [
                tile for tile in range(call.offset) for _ in range(count // call.offset + (tile < count % call.offset))
            ]
            return tiles[i] + 1
        case "lead":
            return lead(call, rows, i)
    frame = [
        rows[j][call.argument] if call.argument is not None else 1 for j in frame_of(node, call.frame, rows, peers, i)
    ]
    if call.function in ("first_value", "last_value", "nth_value"):
        seen = [v for v in frame if v is not None] if call.ignore_nulls else frame
        n = {"first_value": 0, "last_value": len(seen) - 1, "nth_value": call.offset - 1}[call.function]
        return seen[n] if 0 <= n < len(seen) else None
    return total(call, [v for v in frame if v is not None])


def lead(call: WindowCall, rows: list[Any], i: int) -> Any:
    assert call.argument is not None
    ahead = rows[i + 1 :] if call.offset > 0 else rows[:i][::-1]
    if call.ignore_nulls:
        ahead = [row for row in ahead if row[call.argument] is not None]
    if not call.offset:
        return rows[i][call.argument]
    if len(ahead) >= abs(call.offset):
        return ahead[abs(call.offset) - 1][call.argument]
    return None if call.default is None else rows[i][call.default]


def frame_of(node: Window, frame: WindowFrame, rows: list[Any], peers: list[int], i: int) -> range:
    if frame.unit == "rows":
        low = 0 if frame.low is None else max(0, i + int(frame.low))
        high = len(rows) if frame.high is None else i + int(frame.high) + 1
        return range(low, min(high, len(rows)))
    inside = []
    for j in range(len(rows)):
        after_low = frame.low is None or (j >= peers[0] if not frame.low else reaches(node, rows, i, j, frame.low) >= 0)
        before_high = frame.high is None or (
            j <= peers[-1] if not frame.high else reaches(node, rows, i, j, frame.high) <= 0
        )
        if after_low and before_high:
            inside.append(j)
    return range(inside[0], inside[-1] + 1) if inside else range(0)


def reaches(node: Window, rows: list[Any], i: int, j: int, distance: int | float) -> int:
    """Below, at or above 0 where row j is before, at or after the value at this distance from row i."""
    (key,) = node.order
    target = rows[i][key.column]
    if target is not None:
        target = target + (distance if key.ascending else -distance)
    here, there = (place(v, key.ascending, key.nulls_first) for v in (rows[j][key.column], target))
    return (here > there) - (here < there)


def total(call: WindowCall, values: list[Any]) -> Any:
    if call.function == "count":
        return len(values)
    if not values:
        return None
    if call.function in ("min", "max"):
        best = sorted(values, key=lambda v: place(v, True, True))
        return best[0 if call.function == "min" else -1]
    summed = exact_sum(values)
    return summed / len(values) if call.function == "avg" else summed


def exact_sum(values: list[Any]) -> Any:
    if all(isinstance(value, int) for value in values):
        return sum(values)
    if not all(math.isfinite(value) for value in values):
        return sum(value for value in values if not math.isfinite(value))
    return float(sum(map(Fraction, values)))


# The comparison


@st.composite
def histories(draw: st.DrawFn) -> list[Rows]:
    content: Rows = Counter()
    changes = []
    for _ in range(draw(st.integers(1, 4))):
        change = Counter(draw(st.lists(ROWS, max_size=7)))
        for row in draw(st.lists(st.sampled_from(sorted(content.elements(), key=repr) or [None]), max_size=5)):
            if row is not None and content[row] + change[row] > 0:
                change[row] -= 1
        content = plus(content, change)
        changes.append(Counter({row: weight for row, weight in change.items() if weight}))
    return changes


def text(rows: Rows) -> dict[str, int]:
    """By their text, because NaN does not equal itself."""
    result: Counter[str] = Counter()
    for row, weight in rows.items():
        result[repr(row)] += weight
    return dict(result)


def compare(node: Window, changes: list[Rows]) -> None:
    store, whole, content = DictStore(), Counter[Any](), Counter[Any]()
    for step, change in enumerate(changes):
        made = step_window(node, [to_table(change, TYPES)], context_of(node, store, step))
        assert made.schema.equals(zset.schema_of(node.types))
        whole, content = named(plus(whole, change)), named(plus(content, to_rows(made)))
        wanted = text(definition(node, whole))
        assert text(content) == wanted
        assert WINDOW.state.fed is not None
        kept = WINDOW.state.fed.rows(node, [TYPES], (), context_of(node, store, step))
        assert text(to_rows(kept)) == wanted


def named(rows: Rows) -> Rows:
    """With one object for all NaN, so that equal rows are equal to Counter."""
    result: Rows = Counter()
    for row, weight in rows.items():
        result[tuple(NAN if isinstance(v, float) and math.isnan(v) else v for v in row)] += weight
    return Counter({row: weight for row, weight in result.items() if weight})


@settings(max_examples=examples(30))
@given(histories(), st.sampled_from(ORDERS), st.sampled_from([(KEY,), (), (KEY, WORD)]), st.sampled_from([(), *ORDERS]))
def test_ranks_and_values_of_other_rows(
    changes: list[Rows], order: tuple[SortKey, ...], partition: tuple[int, ...], ties: tuple[SortKey, ...]
) -> None:
    compare(replace(window(partition, order, [*RANKS, *OTHERS]), ties=ties), changes)


@settings(max_examples=examples(60))
@given(histories(), st.sampled_from(ORDERS), st.sampled_from(FRAMES), st.sampled_from([(KEY,), (), (NUMBER,)]))
def test_values_and_totals_of_frames(
    changes: list[Rows], order: tuple[SortKey, ...], frame: WindowFrame, partition: tuple[int, ...]
) -> None:
    if (frame.unit == "range" and (frame.low or frame.high) and order[0:1] and order[0].column == WORD) or not order:
        frame = WHOLE
    compare(window(partition, order, of_frame(frame)), changes)


@settings(max_examples=examples(30))
@given(histories(), st.sampled_from([order for order in ORDERS if order]))
def test_what_decides_between_ties_does_not_end_a_frame_of_rows_that_tie(
    changes: list[Rows], order: tuple[SortKey, ...]
) -> None:
    compare(
        replace(window((KEY,), order, of_frame(WindowFrame("range", None, 0))), ties=(SortKey(WORD, False, True),)),
        changes,
    )


# What the histories do not reach

FEW = (KEY,)


def run(node: Window, *changes: Rows) -> Rows:
    """The content after the changes."""
    store, content = DictStore(), Counter[Any]()
    for step, change in enumerate(changes):
        content = plus(content, to_rows(step_window(node, [to_table(change, TYPES)], context_of(node, store, step))))
    return content


def test_the_extremes_of_zeros_keep_their_signs() -> None:
    signed = (WindowCall(name, NUMBER, BEGIN, DOUBLE, signed_zeros=True) for name in ("min", "max"))
    node = window(FEW, ORDERS[0], [*signed, WindowCall("sum", NUMBER, BEGIN, DOUBLE)])
    minus, plus_ = (1, 1, -0.0, "a"), (1, 2, 0.0, "a")
    store, content = DictStore(), Counter[str]()
    for step, (change, wanted) in enumerate(
        (
            ({minus: 1}, {(*minus, -0.0, -0.0, 0.0): 1}),
            ({plus_: 1}, {(*minus, -0.0, -0.0, 0.0): 1, (*plus_, -0.0, 0.0, 0.0): 1}),
            ({minus: -1}, {(*plus_, 0.0, 0.0, 0.0): 1}),
        )
    ):
        made = step_window(node, [to_table(Counter(change), TYPES)], context_of(node, store, step))
        for row in zip(*(column.to_pylist() for column in made.columns), strict=True):
            content[repr(row[:-1])] += row[-1]
        assert +content == Counter({repr(row): weight for row, weight in wanted.items()})


def test_a_row_of_weight_three_is_three_rows() -> None:
    node = window(FEW, ORDERS[0], [RANKS[0], RANKS[1], WindowCall("sum", BY, BEGIN, LONG)])
    row = (1, 5, None, "a")
    assert run(node, Counter({row: 3})) == Counter({(*row, n, 1, 5 * n): 1 for n in (1, 2, 3)})
    assert run(node, Counter({row: 3}), Counter({row: -2})) == Counter({(*row, 1, 1, 5): 1})


def test_only_the_partitions_of_the_changed_rows_are_read_and_only_changed_values_given_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = window(FEW, ORDERS[0], [RANKS[0]])
    store, read = DictStore(), []
    real = window_module.sort_rows
    monkeypatch.setattr(window_module, "sort_rows", lambda *given_: read.append(len(given_[1])) or real(*given_))
    first = Counter({(key, by, None, "a"): 1 for key in range(20) for by in range(10)})
    step_window(node, [to_table(first, TYPES)], context_of(node, store, 0))
    last = Counter({(7, 9, None, "a"): -1, (7, 11, None, "b"): 1, (7, 12, None, "b"): 1})
    made = to_rows(step_window(node, [to_table(last, TYPES)], context_of(node, store, 1)))
    assert read == [200, 12], "the ten rows of the partition, and the two new ones"
    assert made == Counter({(7, 9, None, "a", 10): -1, (7, 11, None, "b", 10): 1, (7, 12, None, "b", 11): 1})


def test_sums_of_sliding_frames_are_exact_and_forget_what_has_left_the_frame() -> None:
    """A running sum of doubles would keep the rounding of 1e300, and the NaN."""
    numbers = [1e300, 1.5, NAN, -0.25, float("inf"), 0.5]
    node = window((), (SortKey(BY, True, True),), [WindowCall("sum", NUMBER, WindowFrame("rows", 0, 0), DOUBLE)])
    content = run(node, Counter({(0, i, number, None): 1 for i, number in enumerate(numbers)}))
    assert sorted((row[BY], repr(row[-1])) for row in content) == [
        (i, repr(number)) for i, number in enumerate(numbers)
    ]


@pytest.mark.parametrize("nulls_first", [True, False])
def test_the_frame_of_a_null_at_a_distance_is_the_nulls(nulls_first: bool) -> None:
    node = window((), (SortKey(BY, True, nulls_first),), [WindowCall("count", None, WindowFrame("range", -2, 1), LONG)])
    content = run(
        node, Counter({(0, by, None, word): 1 for by, word in [(None, "a"), (None, "b"), (1, "a"), (3, "a"), (4, "a")]})
    )
    assert sorted(row[-1] for row in content if row[BY] is None) == [2, 2]
    assert {row[BY]: row[-1] for row in content if row[BY] is not None} == {1: 1, 3: 3, 4: 2}


def test_a_sum_that_its_type_cannot_hold_stops_the_step() -> None:
    types = (LONG, LONG)
    node = Window((0,), (*types, LONG), (), (SortKey(0, True, True),), (WindowCall("sum", 1, BEGIN, LONG),))
    rows: Rows = Counter({(0, 2**62): 1, (1, 2**62): 1})
    with pytest.raises(ResultOverflow, match="of a window exceeds the type"):
        step_window(node, [to_table(rows, types)], context_of(node, DictStore(), 0))


@pytest.mark.parametrize(
    ("kind", "value", "frame", "ascending"),
    [
        (INT, 2**31 - 2, WindowFrame("range", None, 2), True),
        (INT, 2 - 2**31, WindowFrame("range", -3, 0), True),
        (INT, 2 - 2**31, WindowFrame("range", 0, 3), False),
        (LONG, 2**63 - 1, WindowFrame("range", 1, None), True),
    ],
)
def test_a_bound_that_its_type_cannot_hold_stops_the_step_as_in_spark(
    kind: pa.DataType, value: int, frame: WindowFrame, ascending: bool
) -> None:
    node = Window((0,), (kind, LONG), (), (SortKey(0, ascending, True),), (WindowCall("count", None, frame, LONG),))
    rows: Rows = Counter({(value,): 1, (None,): 1})
    with pytest.raises(DataError, match="RANGE frame exceeds the type"):
        step_window(node, [to_table(rows, (kind,))], context_of(node, DictStore(), 0))


def test_more_rows_than_can_be_computed_at_once_stop_the_step() -> None:
    node = window(FEW, ORDERS[0], [RANKS[0]])
    with pytest.raises(DataError, match="have more than"):
        run(node, Counter({(1, 1, None, "a"): ROWS_MAX + 1}))
