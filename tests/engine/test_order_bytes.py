"""Values as bytes: the way there and back, and the order, beside Python's own comparison."""

from __future__ import annotations

import functools
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.accumulators import order_bytes
from tests.examples import examples

TEXT = st.text("a\x00\x01\xffé😀", max_size=3)
DOUBLE = st.sampled_from([0.0, -0.0, 1.5, -2.25, 1e300, -5e-324, math.nan, math.inf, -math.inf])
SCALARS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), TEXT),
    (pa.binary(), st.binary(max_size=3)),
    (pa.int32(), st.integers(-3, 3) | st.sampled_from([-(2**31), 2**31 - 1])),
    (pa.int64(), st.sampled_from([-(2**63), 2**63 - 1, 0, -1, 256])),
    (pa.float64(), DOUBLE),
    (pa.float32(), st.sampled_from([0.0, -0.0, 1.5, math.nan])),
    (pa.bool_(), st.booleans()),
    (pa.decimal128(30, 2), st.integers(-(10**24), 10**24).map(lambda n: Decimal(n).scaleb(-2))),
    (pa.decimal128(9, 1), st.integers(-(10**8), 10**8).map(lambda n: Decimal(n).scaleb(-1))),
    (pa.date32(), st.dates()),
]


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = inner.map(lambda t: (pa.list_(pa.field("element", t[0])), st.lists(st.none() | t[1], max_size=3)))

    def struct(fields: list[tuple[str, tuple[pa.DataType, st.SearchStrategy[Any]]]]) -> Any:
        named = [(f"{name}{i}", t) for i, (name, t) in enumerate(fields)]
        return (
            pa.struct([(name, t[0]) for name, t in named]),
            st.fixed_dictionaries({name: st.none() | t[1] for name, t in named}),
        )

    def map_(type_: pa.DataType, values: st.SearchStrategy[Any]) -> Any:
        return pa.map_(pa.string(), type_), st.dictionaries(TEXT, st.none() | values, max_size=3).map(
            lambda d: list(d.items())
        )

    return (
        lists
        | inner.map(lambda t: map_(*t))
        | st.lists(st.tuples(st.sampled_from(["f", order_bytes.DESCENDING]), inner), min_size=1, max_size=3).map(struct)
    )


TYPES = st.recursive(st.sampled_from(SCALARS), _nested, max_leaves=4)


def compare(a: Any, b: Any, type_: pa.DataType) -> int:
    """Spark's order, value by value: nulls first, NaN last, strings by their bytes; -0.0 below 0.0."""
    if a is None or b is None:
        return (a is not None) - (b is not None)
    if pa.types.is_struct(type_):
        for field in type_:
            found = compare(a[field.name], b[field.name], field.type)
            if found:
                return -found if field.name.startswith(order_bytes.DESCENDING) else found
        return 0
    if pa.types.is_map(type_):
        entry = pa.struct([("key", type_.key_type), ("value", type_.item_type)])
        return compare(*([{"key": k, "value": v} for k, v in each] for each in (a, b)), pa.list_(entry))
    if pa.types.is_list(type_):
        for x, y in zip(a, b, strict=False):
            if found := compare(x, y, type_.value_type):
                return found
        return (len(a) > len(b)) - (len(a) < len(b))
    x, y = (_rank(value) for value in (a, b))
    return (x > y) - (x < y)


def _rank(value: Any) -> Any:
    if isinstance(value, float):
        return (1, 0.0, 0.0) if math.isnan(value) else (0, value, math.copysign(1, value))
    return value.encode() if isinstance(value, str) else value


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_bytes_are_in_the_order_of_the_values_and_give_them_back(data: st.DataObject) -> None:
    type_, values = data.draw(TYPES)
    column = pa.array(data.draw(st.lists(values, max_size=8)), type_, from_pandas=False)
    encoded = order_bytes.encode(column)
    assert repr(order_bytes.decode(encoded, type_).to_pylist()) == repr(column.to_pylist())
    whole, raw = column.to_pylist(), encoded.to_pylist()
    by_value = sorted(range(len(whole)), key=functools.cmp_to_key(lambda i, j: compare(whole[i], whole[j], type_)))
    assert [raw[i] for i in by_value] == sorted(raw)
    with_null = pa.concat_arrays([pa.nulls(1, pa.binary()), encoded, pa.nulls(1, pa.binary())])
    assert repr(order_bytes.decode(with_null, type_).to_pylist()) == repr([None, *whole, None])
    if len(column) > 1:
        assert order_bytes.encode(column.slice(1)).to_pylist() == raw[1:]
        assert repr(order_bytes.decode(encoded.slice(1), type_).to_pylist()) == repr(whole[1:])
