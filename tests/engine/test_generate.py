"""Generate beside its definition, over random histories of insertions and retractions."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.model.rows import Generate
from engine.operators.generate import step_generate
from engine.rows import zset
from engine.state.store import DictStore
from tests.engine.contexts import context_of
from tests.engine.zsets import Rows, to_rows
from tests.examples import examples

LONG = pa.int64()
STRUCT = pa.struct([pa.field("p", LONG), pa.field("q", pa.string())])
LISTS = pa.list_(pa.field("element", LONG))
STRUCTS = pa.list_(pa.field("element", STRUCT))
MAPS = pa.map_(pa.string(), LONG)

_LONGS = st.none() | st.lists(st.none() | st.integers(0, 2), max_size=3).map(tuple)
_CELLS = st.tuples(st.none() | st.integers(0, 2), st.none() | st.sampled_from("ab"))
_PAIRS = st.none() | st.lists(st.none() | _CELLS, max_size=3).map(tuple)
_KEYS = st.none() | st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 2)).map(
    lambda d: tuple(d.items())
)


def _table(rows: list[tuple[Any, Any, int]], type_: pa.DataType) -> pa.Table:
    cells = [row[1] for row in rows]
    if pa.types.is_list(type_) and pa.types.is_struct(type_.value_type):
        cells = [None if c is None else [None if e is None else {"p": e[0], "q": e[1]} for e in c] for c in cells]
    lists = pa.array([None if c is None else list(c) for c in cells], type_)
    return pa.table(
        [pa.array([r[0] for r in rows], LONG), lists, pa.array([r[2] for r in rows], LONG)], ["c0", "c1", "weight"]
    )


def _defined(node: Generate, rows: list[tuple[Any, Any, int]]) -> Rows:
    found: Rows = Counter()
    width = len(node.types) - len(node.kept) - node.position
    for key, elements, weight in rows:
        kept = (key,) * len(node.kept)
        for place, element in enumerate(elements or ()):
            cells = (element or (None,) * width) if node.fields else (element,)
            found[(*kept, *((place,) if node.position else ()), *cells)] += weight
        if node.outer and not elements:
            found[(*kept, *(None,) * (len(node.types) - len(node.kept)))] += weight
    return Counter({row: weight for row, weight in found.items() if weight})


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("position", [False, True])
@pytest.mark.parametrize("kept", [(), (0,)])
@pytest.mark.parametrize(
    ("type_", "cells", "made"),
    [(LISTS, _LONGS, (LONG,)), (STRUCTS, _PAIRS, (LONG, pa.string())), (MAPS, _KEYS, (pa.string(), LONG))],
    ids=["lists", "structs", "maps"],
)
def test_a_row_is_made_of_each_element(
    type_: pa.DataType,
    cells: st.SearchStrategy[Any],
    made: tuple[pa.DataType, ...],
    kept: tuple[int, ...],
    *,
    position: bool,
    outer: bool,
) -> None:
    types = (*(LONG,) * len(kept), *((pa.int32(),) if position else ()), *made)
    node = Generate((0,), types, kept, 1, position, type_ != LISTS, outer)
    node.check([(LONG, type_)])

    @settings(deadline=None, max_examples=examples(40))
    @given(
        st.lists(st.tuples(st.none() | st.integers(0, 2), cells, st.sampled_from([-2, -1, 1, 3])), max_size=8),
        st.integers(0, 3),
    )
    def each(rows: list[tuple[Any, Any, int]], cut: int) -> None:
        table = _table(rows, type_)
        sliced = pa.concat_tables([table.slice(0, cut), table.slice(cut)])  # the columns have chunks, and offsets
        result = step_generate(node, [sliced], context_of(node, DictStore(), 0))
        assert result.schema.types == zset.schema_of(types).types
        assert to_rows(result) == _defined(node, rows)

    each()
