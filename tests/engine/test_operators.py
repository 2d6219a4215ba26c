"""Every operator compared with its definition. The definition works on the whole content and the operator on changes; their integrals are equal.

The definitions are simple loops from Counters of rows to Counters of rows.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.text.patterns import NO_PATTERNS
from engine.errors import DataError
from engine.model.circuit import Node, Output, View
from engine.model.joins import Join, SemiJoin
from engine.model.node import Expression
from engine.model.rows import Deduplicate, Distinct, LastByKey
from engine.operators.distinct import step_deduplicate, step_distinct
from engine.operators.join import step_join
from engine.operators.last_by_key import step_last_by_key
from engine.operators.output import step_output
from engine.operators.semi_join import step_semi_join
from engine.operators.view import step_view
from engine.rows import zset
from engine.state.store import DictStore
from io_kafka.formats.written import Written
from tests.engine.contexts import context_of
from tests.engine.zsets import TYPES, Rows, histories, plus, to_rows, to_table
from tests.examples import examples

BOTH = (*TYPES, *TYPES)
RESIDUAL = Expression('"c1" <= "c3"', pa.bool_())


def run(operator: Callable[..., pa.Table], node: Node, steps: list[list[Rows]], *, grow: bool = False) -> list[Rows]:
    """The integral of the output after every step."""
    store, content, integrals = DictStore(), Counter[tuple[Any, ...]](), []
    for step, inputs in enumerate(steps):
        context = context_of(node, store, step, append_only=grow)
        change = operator(node, [to_table(rows, TYPES) for rows in inputs], context)
        assert change.cast(zset.schema_of(node.types)).column_names == change.column_names
        content = plus(content, to_rows(change))
        integrals.append(content)
    return integrals


def twin(definition: Callable[..., Rows], steps: list[list[Rows]]) -> list[Rows]:
    """The definition over the whole input after every step."""
    whole: list[Rows] = [Counter() for _ in steps[0]]
    integrals = []
    for inputs in steps:
        whole = [plus(w, change) for w, change in zip(whole, inputs, strict=True)]
        integrals.append(definition(*whole))
    return integrals


def two(left: list[Rows], right: list[Rows]) -> list[list[Rows]]:
    length = max(len(left), len(right))
    return [[(s[i] if i < len(s) else Counter()) for s in (left, right)] for i in range(length)]


def distinct(rows: Rows) -> Rows:
    return Counter({row: 1 for row, weight in rows.items() if weight > 0})


@settings(deadline=None)
@given(histories())
def test_distinct(changes: list[Rows]) -> None:
    steps = [[change] for change in changes]
    assert run(step_distinct, Distinct((0,), TYPES), steps) == twin(distinct, steps)


@settings(deadline=None)
@given(histories())
def test_deduplicate_keeps_one_row_of_every_key_by_content_alone(changes: list[Rows]) -> None:
    node = Deduplicate((0,), TYPES, (0,))
    integrals = run(step_deduplicate, node, [[change] for change in changes])
    whole: Rows = Counter()
    for change, result in zip(changes, integrals, strict=True):
        whole = plus(whole, change)
        assert set(result.values()) <= {1} and set(result) <= set(whole)
        assert sorted(map(repr, (row[0] for row in result))) == sorted(map(repr, {row[0] for row in whole}))
        assert result == run(step_deduplicate, node, [[whole]])[0], "the choice depends on how the content came"


@settings(deadline=None)
@given(histories(grow=True))
def test_deduplicate_over_an_append_only_input_never_retracts(changes: list[Rows]) -> None:
    integrals = run(step_deduplicate, Deduplicate((0,), TYPES, (0,)), [[c] for c in changes], grow=True)
    for earlier, later in itertools.pairwise(integrals):
        assert not earlier - later
    assert len(integrals[-1]) == len({row[0] for change in changes for row in change})


def test_deduplicate_keeps_the_first_row_of_an_append_only_input_and_the_least_of_one_that_retracts() -> None:
    """Canonical order is by hash and then by value, so the test finds out which of "a" and "b" is the least. It sends the other one a step
    before or after it."""
    node = Deduplicate((0,), TYPES, (0,))
    (least,) = run(step_deduplicate, node, [[Counter({(1, "a"): 1, (1, "b"): 1})]])[-1]
    other = (1, "b") if least == (1, "a") else (1, "a")
    first_then_least: list[list[Rows]] = [[Counter({other: 1})], [Counter({least: 1})]]
    assert run(step_deduplicate, node, first_then_least, grow=True)[-1] == Counter({other: 1})
    assert run(step_deduplicate, node, first_then_least, grow=False)[-1] == Counter({least: 1})
    together: list[list[Rows]] = [[Counter({other: 1, least: 1})]]
    assert run(step_deduplicate, node, together, grow=True)[-1] == Counter({least: 1})


def residual(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    return left[1] is not None and right[1] is not None and left[1].encode() <= right[1].encode()


def joined(left: Rows, right: Rows, *, null_safe: bool, with_residual: bool) -> Rows:
    result: Rows = Counter()
    for a, m in left.items():
        for b, n in right.items():
            equal = a[0] == b[0] and (null_safe or a[0] is not None)
            if equal and (not with_residual or residual(a, b)):
                result[a + b] += m * n
    return result


@settings(deadline=None)
@given(histories(), histories(), st.booleans(), st.booleans())
def test_join(left: list[Rows], right: list[Rows], null_safe: bool, with_residual: bool) -> None:
    node = Join((0, 1), BOTH, (0,), (0,), (null_safe,), RESIDUAL if with_residual else None)
    steps = two(left, right)
    definition = lambda a, b: joined(a, b, null_safe=null_safe, with_residual=with_residual)  # noqa: E731
    assert run(step_join, node, steps) == twin(definition, steps)


@pytest.mark.parametrize("anti", [None, False, True])
def test_a_row_that_leaves_never_meets_one_that_comes_in_the_same_step(anti: bool | None) -> None:
    """The condition fails for such a pair, which is in no table of either moment; and for a pair that stays it must fail."""
    fails = Expression("""CASE WHEN "c1" = "c3" THEN error('[DIVIDE_BY_ZERO] ') ELSE true END""", pa.bool_())
    node: Node = (
        Join((0, 1), BOTH, (0,), (0,), (False,), fails)
        if anti is None
        else SemiJoin((0, 1), TYPES, anti, (0,), (0,), (False,), fails)
    )
    operator = step_join if anti is None else step_semi_join
    came: list[Rows] = [Counter({(1, "a"): 1, (1, "c"): 2}), Counter({(1, "b"): 1})]
    exchanged: list[Rows] = [Counter({(1, "a"): -1, (1, "c"): -1}), Counter({(1, "b"): -1, (1, "a"): 1})]
    after = run(operator, node, [came, exchanged])[-1]
    assert after == {None: {(1, "c", 1, "a"): 1}, False: {(1, "c"): 1}, True: {}}[anti]
    with pytest.raises(DataError, match="DIVIDE_BY_ZERO"):
        run(operator, node, [came, [exchanged[0], Counter({(1, "c"): 1})]])
    nothing: Rows = Counter()
    gone_before: list[list[Rows]] = [
        [nothing, Counter({(1, "a"): 1, (1, "b"): 1})],
        [nothing, Counter({(1, "a"): -1})],
        [Counter({(1, "a"): 1}), nothing],
    ]
    assert run(operator, node, gone_before)[-1] == {None: {(1, "a", 1, "b"): 1}, False: {(1, "a"): 1}, True: {}}[anti]


def semi(left: Rows, right: Rows, *, anti: bool, null_safe: bool, with_residual: bool) -> Rows:
    def matches(a: tuple[Any, ...]) -> bool:
        return any(
            a[0] == b[0] and (null_safe or a[0] is not None) and (not with_residual or residual(a, b)) for b in right
        )

    return Counter({a: m for a, m in left.items() if matches(a) != anti})


@settings(deadline=None, max_examples=examples(200))
@given(histories(), histories(), st.booleans(), st.booleans(), st.booleans())
def test_semi_join(left: list[Rows], right: list[Rows], anti: bool, null_safe: bool, with_residual: bool) -> None:
    node = SemiJoin((0, 1), TYPES, anti, (0,), (0,), (null_safe,), RESIDUAL if with_residual else None)
    steps = two(left, right)
    definition = lambda a, b: semi(a, b, anti=anti, null_safe=null_safe, with_residual=with_residual)  # noqa: E731
    assert run(step_semi_join, node, steps) == twin(definition, steps)


def not_in(left: Rows, right: Rows) -> Rows:
    """SQL: `a NOT IN (subquery)` is true if the subquery is empty, or neither side has a null and no value is equal."""
    values = {row[0] for row in right}
    if not values:
        return left
    if None in values:
        return Counter()
    return Counter({a: m for a, m in left.items() if a[0] is not None and a[0] not in values})


@settings(deadline=None, max_examples=examples(200))
@given(histories(), histories())
def test_not_in(left: list[Rows], right: list[Rows]) -> None:
    node = SemiJoin((0, 1), TYPES, True, (0,), (0,), (False,), None, True)
    steps = two(left, right)
    assert run(step_semi_join, node, steps) == twin(not_in, steps)


MESSAGE = st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", None]), st.booleans())


@settings(deadline=None)
@given(st.lists(st.lists(MESSAGE, max_size=6), min_size=1, max_size=5), st.randoms())
def test_last_by_key(steps: list[list[tuple[int, str | None, bool]]], random: Any) -> None:
    """Messages arrive shuffled, and (partition, offset) decides which is the last. Each key has one partition."""
    node = LastByKey((0,), TYPES, "table", (0,))
    store, content, table, offset = DictStore(), Counter[tuple[Any, ...]](), dict[int, tuple[Any, ...]](), 0
    for step, messages in enumerate(steps):
        rows = []
        for key, value, deleted in messages:
            rows.append((key, None if deleted else value, deleted, key, offset))
            offset += 1
            if deleted:
                table.pop(key, None)
            else:
                table[key] = (key, value)
        random.shuffle(rows)
        types = (*TYPES, pa.bool_(), pa.int32(), pa.int64())
        change = step_last_by_key(node, [to_table(rows, types)], context_of(node, store, step, append_only=True))
        content = plus(content, to_rows(change))
        assert content == Counter(table.values())


def test_a_key_in_two_partitions_is_refused_within_and_across_steps() -> None:
    node = LastByKey((0,), TYPES, "airlines", (0,))
    types = (*TYPES, pa.bool_(), pa.int32(), pa.int64())
    first, second = (1, "a", False, 0, 5), (1, "b", False, 3, 0)
    with pytest.raises(DataError, match=r"Key .*1.* has messages in partitions 0 and 3"):
        step_last_by_key(node, [to_table([first, second], types)], context_of(node, DictStore(), 7, append_only=True))
    store = DictStore()
    step_last_by_key(node, [to_table([first], types)], context_of(node, store, 0, append_only=True))
    with pytest.raises(DataError, match="partitions 0 and 3"):
        step_last_by_key(node, [to_table([second], types)], context_of(node, store, 1, append_only=True))


@settings(deadline=None)
@given(st.lists(st.lists(st.tuples(MESSAGE, st.integers(0, 2)), max_size=6), min_size=1, max_size=5), st.randoms())
def test_in_a_topic_with_new_partitions_step_then_partition_then_offset_decides(
    steps: list[list[tuple[tuple[int, str | None, bool], int]]], random: Any
) -> None:
    node = LastByKey((0,), TYPES, "table", (0,))
    types = (*TYPES, pa.bool_(), pa.int32(), pa.int64())
    store, content, table = DictStore(), Counter[tuple[Any, ...]](), dict[int, tuple[Any, ...]]()
    for step, messages in enumerate(steps):
        rows = [(k, None if gone else v, gone, part, at) for at, ((k, v, gone), part) in enumerate(messages)]
        for key, value, gone, _, _ in sorted(rows, key=lambda row: row[3:]):
            if gone:
                table.pop(key, None)
            else:
                table[key] = (key, value)
        random.shuffle(rows)
        context = context_of(node, store, step, append_only=True, grown=frozenset({"table"}))
        content = plus(content, to_rows(step_last_by_key(node, [to_table(rows, types)], context)))
        assert content == Counter(table.values())


def test_new_partitions_of_another_topic_do_not_permit_a_key_in_two_partitions() -> None:
    node = LastByKey((0,), TYPES, "airlines", (0,))
    messages = to_table([(1, "a", False, 0, 5), (1, "b", False, 3, 0)], (*TYPES, pa.bool_(), pa.int32(), pa.int64()))
    with pytest.raises(DataError, match="partitions 0 and 3"):
        step_last_by_key(
            node, [messages], context_of(node, DictStore(), 7, append_only=True, grown=frozenset({"flights"}))
        )


def test_a_view_with_two_rows_of_a_key_is_refused_before_it_changes() -> None:
    node = View((0,), TYPES, "totals", ("id", "word"), True, (0,))
    store = DictStore()
    step_view(node, [to_table(Counter({(1, "a"): 1}), TYPES)], context_of(node, store, 0, append_only=True))
    step_view(
        node, [to_table(Counter({(1, "a"): -1, (1, "b"): 1}), TYPES)], context_of(node, store, 1, append_only=True)
    )
    before = dict(store.records)
    with pytest.raises(DataError, match=r"2 rows have the key \{'id': 1\}"):
        step_view(node, [to_table(Counter({(1, "c"): 1}), TYPES)], context_of(node, store, 2, append_only=True))
    assert store.records == before


TABLES = st.dictionaries(st.integers(-2, 4), st.sampled_from(["a", "b"]), max_size=4)


def published(mode: Any, before: dict[int, str], after: dict[int, str]) -> list[tuple[Any, Any]]:
    """The key and value of every message for the change of a table with key `id` from one content to the next."""
    node = Output((0,), (), "table", mode, ("id", "word"), (0,))
    change = plus(Counter(after.items()), Counter(dict.fromkeys(before.items(), -1)))
    messages = step_output(node, [to_table(change, TYPES)], context_of(node, DictStore(), 3, partitions={"table": 3}))
    pairs = zip(messages.column("key").to_pylist(), messages.column("value").to_pylist(), strict=True)
    return [(json.loads(key)["id"], value and json.loads(value)) for key, value in pairs]


@given(TABLES, TABLES)
def test_the_last_messages_of_an_upsert_topic_are_the_table(before: dict[int, str], after: dict[int, str]) -> None:
    """There is one message per key that changed: its row, or null if it has no row any more."""
    expected = {key: after.get(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    messages = published("upsert", before, after)
    assert len(messages) == len(expected)
    assert {key: value and value["word"] for key, value in messages} == expected


@given(TABLES, TABLES)
def test_a_changelog_has_the_rows_before_and_after(before: dict[int, str], after: dict[int, str]) -> None:
    expected = {}
    for key in before.keys() | after.keys():
        was, now = ({"id": key, "word": table[key]} if key in table else None for table in (before, after))
        if was != now:
            expected[key] = {"before": was, "after": now, "op": "c" if was is None else "d" if now is None else "u"}
    messages = published("changelog", before, after)
    assert len(messages) == len(expected)
    assert dict(messages) == expected


def test_an_append_topic_refuses_a_retraction() -> None:
    node = Output((0,), (), "events", "append", ("id", "word"))
    context = context_of(node, DictStore(), 3, partitions={"events": 1})
    assert step_output(node, [to_table(Counter({(1, "a"): 2}), TYPES)], context).num_rows == 2
    with pytest.raises(DataError, match="A row was retracted"):
        step_output(node, [to_table(Counter({(1, "a"): -1}), TYPES)], context)


def test_a_row_that_the_format_of_an_output_cannot_say_is_refused() -> None:
    written = Written("csv", "string", (("csv.sep", ";"),), NO_PATTERNS)
    node = Output((0,), (), "events", "append", ("id", "word"), (1,), written)
    context = context_of(node, DictStore(), 3, partitions={"events": 1})
    (message,) = step_output(node, [to_table([(1, "a;b")], TYPES)], context).to_pylist()
    assert (message["key"], message["value"]) == (b"a;b", b'1;"a;b"')
    with pytest.raises(DataError, match=r"column word is NULL in a row, and a key in the format string.*key\.format"):
        step_output(node, [to_table([(1, None)], TYPES)], context)


def test_a_row_that_is_inserted_and_retracted_within_a_step_is_not_written() -> None:
    node = Output((0,), (), "events", "append", ("id", "word"))
    change = to_table([(1, "a"), (2, "b")], TYPES)
    both = zset.add([change, zset.negate(change.slice(0, 1))])
    context = context_of(node, DictStore(), 3, partitions={"events": 1})
    assert [json.loads(value)["id"] for value in step_output(node, [both], context).column("value").to_pylist()] == [2]


def test_a_changelog_without_a_key_has_a_message_for_each_of_equal_rows() -> None:
    node = Output((0,), (), "events", "changelog", ("id", "word"))
    context = context_of(node, DictStore(), 3, partitions={"events": 1})
    messages = step_output(node, [to_table(Counter({(1, "a"): 2, (2, "b"): -3}), TYPES)], context)
    assert messages.column("key").null_count == 5
    ops = Counter(
        (value["op"], (value["after"] or value["before"])["id"])
        for value in map(json.loads, messages.column("value").to_pylist())
    )
    assert ops == {("c", 1): 2, ("d", 2): 3}
