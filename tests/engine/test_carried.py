"""The table of a keyed source gets columns and is made of the one that it had: its rows have NULL in them until a message of their key comes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from engine.analysis.fill_circuits import fill_circuits
from engine.analysis.filling import FillingPrograms
from engine.analysis.history import histories
from engine.analysis.identity import Named, SourceIdentity
from engine.analysis.numbering import numbers_after
from engine.analysis.project_match import match_projects
from engine.errors import DataError
from engine.model.circuit import Circuit, View
from engine.model.filling import HASHES
from engine.model.node import Expression
from engine.model.rows import Distinct, LastByKey, Map, Source
from tests.engine.in_process import InProcess
from tests.engine.test_filling import contents_of
from tests.engine.transitions import Way
from tests.engine.zsets import Rows
from tests.sampling import sampled

LONG, TEXT = pa.int64(), pa.string()
MESSAGE = (pa.bool_(), pa.int32(), LONG)
HAD, HAS = (LONG, TEXT), (TEXT, LONG, TEXT)
OLD, NEW = ("id BIGINT", "name STRING"), ("more STRING", "id BIGINT", "name STRING")
PARTITIONS = 3
KEYS = 60


def before() -> Named:
    nodes = (
        Source((), (*HAD, *MESSAGE), "people", keyed=True),
        LastByKey((0,), HAD, "people", (0,)),
        Distinct((1,), HAD),
        View((2,), HAD, "once", ("id", "name"), kept=True),
    )
    return Named(Circuit(nodes), {"people": SourceIdentity("topic", OLD)}, {}, {})


def now() -> Named:
    """`once` is kept, `wide` is new, and so is what is stored of all columns."""
    selected = tuple(Expression(f"c{place}", HAS[place], column=place) for place in (1, 2))
    nodes = (
        Source((), (*HAS, *MESSAGE), "people", keyed=True),
        LastByKey((0,), HAS, "people", (1,)),
        Map((1,), HAD, None, selected),
        Distinct((2,), HAD),
        View((3,), HAD, "once", ("id", "name"), kept=True),
        View((1,), HAS, "wide", ("more", "id", "name"), kept=True),
        Distinct((1,), HAS),
        View((6,), HAS, "stored", ("more", "id", "name"), kept=True),
    )
    return Named(Circuit(nodes), {"people": SourceIdentity("topic", NEW)}, {}, {})


def filling() -> FillingPrograms:
    found = match_projects(before(), now())
    assert {3, 4} <= found.kept.keys() and found.is_young(1)
    made = histories(found, {}, (), carried={1: 1})
    numbers = tuple(range(len(before().circuit.nodes)))
    return fill_circuits(found, made, (numbers, numbers_after(found, numbers)), ())


@dataclass
class Topic:
    """What a producer sends, and what the tables hold: the last message of every key, without the values that the table of that time lacked."""

    chance: random.Random
    is_wide: bool = False
    rows: dict[int, tuple[str | None, str]] = field(default_factory=dict)
    offset: int = 0

    def messages(self, count: int) -> pa.Table:
        found = []
        for _ in range(count):
            key, name, more = (
                self.chance.randrange(KEYS),
                self.chance.choice("abc"),
                self.chance.choice(["x", "y", None]),
            )
            deleted = self.chance.random() < 0.2
            self.rows.pop(key, None)
            if not deleted:
                self.rows[key] = (more if self.is_wide else None, name)
            values = (more, key, name) if self.is_wide else (key, name)
            found.append((*values, deleted, key % PARTITIONS, self.offset))
            self.offset += 1
        types = (*(HAS if self.is_wide else HAD), *MESSAGE)
        columns = [pa.array([row[i] for row in found], kind) for i, kind in enumerate(types)]
        ones = pa.array([1] * count, LONG)
        return pa.Table.from_arrays([*columns, ones], [*(f"c{i}" for i in range(len(types))), "weight"])

    def expected(self) -> dict[str, Rows]:
        wide = Rows({(more, key, name): 1 for key, (more, name) in self.rows.items()})
        return {"once": Rows({(key, name): 1 for key, (_, name) in self.rows.items()}), "wide": wide, "stored": wide}


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", sampled(range(4), 3, (1,)))
def test_rows_have_null_in_new_columns_until_their_key_has_a_message(seed: int, workers: int) -> None:
    chance = random.Random(seed)
    topic, made = Topic(chance), filling()
    inner = InProcess(before().circuit, workers)
    way = Way(inner, made)
    inner.step({"people": topic.messages(100)})
    way.begin()
    while not way.is_filled:
        way.advance_randomly(chance)
        inner.step({"people": topic.messages(chance.randrange(8))}, filled=way.filled)
    way.turn()
    topic.is_wide = True
    for number in range(4):
        inner.step({"people": topic.messages(chance.randrange(30))}, filled=(0, HASHES) if number == 0 else (0, 0))
        if number == 0:
            way.settle()
        assert contents_of(inner) == topic.expected(), f"step {number} of the next project"


def test_the_partition_of_each_key_is_carried() -> None:
    """By that a message of a key in another partition is noticed."""
    topic, made = Topic(random.Random(1)), filling()
    inner = InProcess(before().circuit, 2)
    way = Way(inner, made)
    inner.step({"people": topic.messages(100)})
    way.begin()
    way.advance(way.whole)
    inner.step({"people": topic.messages(5)}, filled=way.filled)
    way.turn()
    topic.is_wide = True
    inner.step({"people": topic.messages(1)}, filled=(0, HASHES))
    way.settle()
    key = min(topic.rows)
    other = topic.messages(1)
    values = [None, key, "a", False, (key + 1) % PARTITIONS, 1000, 1]
    moved = pa.Table.from_arrays(
        [pa.array([v], kind) for v, kind in zip(values, other.schema.types, strict=True)], other.column_names
    )
    with pytest.raises(DataError, match=f"Key .*{key}.* has messages in partitions"):
        inner.step({"people": moved})
