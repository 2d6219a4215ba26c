"""What the messages of an output topic make, step after step, and whether it is what Spark answers."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.end_to_end.oracle_topics import Message

RELATIVE_ERROR_MAX = 1e-12
"""Between Spark's sum of doubles, rounded at every addition, and one that is rounded once."""

Shape = tuple[Any, ...]
"""A row without its inexact columns, as plain comparable data; a number is the text that it was written as."""
Bag = dict[Shape, list[tuple[float | None, ...]]]


@dataclass(frozen=True)
class Watched:
    """`mode`: append, upsert or changelog."""

    view: str
    topic: str
    mode: str


@dataclass(frozen=True)
class Answer:
    """A view's rows as Spark's to_json writes them; `inexact`: columns that are compared within RELATIVE_ERROR_MAX."""

    rows: Sequence[str]
    inexact: frozenset[str] = frozenset()


class Content:
    """What an output topic's messages make, step after step."""

    def __init__(self, view: Watched) -> None:
        self.view = view
        self.letter = "f" if view.mode == "upsert" else "c"
        self._rows: Counter[bytes] = Counter()  # append and changelog: the row's JSON, canonical
        self._by_key: dict[bytes, tuple[int, bytes]] = {}  # upsert: where a live key is, and its value
        self._homes: dict[bytes, int] = {}

    def take(self, step: int, written: Sequence[tuple[int, Message]]) -> Iterator[str]:
        """`written`: (partition, message) of this step, in order within a partition."""
        changes: Counter[bytes] = Counter()
        gross = 0
        for partition, message in written:
            where = f"{self.view.view}, step {step}, partition {partition}, offset {message.offset}"
            if self.view.mode == "upsert":
                yield from self._put(where, partition, message)
                continue
            for image, weight in self._images(message):
                changes[image] += weight
                gross += 1
        if gross != sum(abs(weight) for weight in changes.values()):
            yield f"c: {self.view.view}, step {step}: a row is both added and taken away in one step"
        self._rows.update(changes)
        for image in changes:
            if self._rows[image] < 0:
                yield f"c: {self.view.view}, step {step}: takes away a row that is not there: {image.decode()[:200]}"
            if not self._rows[image]:
                del self._rows[image]

    def _put(self, where: str, partition: int, message: Message) -> Iterator[str]:
        if message.key is None:
            yield f"f: {where}: a message without a key in an upsert topic"
            return
        if self._homes.setdefault(message.key, partition) != partition:
            yield f"f: {where}: key {message.key!r} was in partition {self._homes[message.key]} before"
        before = self._by_key.get(message.key)
        if message.value == (None if before is None else before[1]):
            yield f"f: {where}: says of key {message.key!r} what was said before: nothing changes"
        if message.value is None:
            self._by_key.pop(message.key, None)
        else:
            self._by_key[message.key] = (partition, message.value)

    def _images(self, message: Message) -> Iterator[tuple[bytes, int]]:
        assert message.value is not None, f"{self.view.view}: a message without a value at offset {message.offset}"
        if self.view.mode == "append":
            yield message.value, 1
            return
        change = json.loads(message.value, parse_float=_Number, parse_int=_Number)
        for image, weight in ((change["before"], -1), (change["after"], 1)):
            if image is not None:
                yield _text(image).encode(), weight

    def rows(self) -> Iterable[bytes]:
        """What is there now."""
        return self._rows.elements() if self.view.mode != "upsert" else (value for _, value in self._by_key.values())

    def bag(self, inexact: frozenset[str]) -> Bag:
        return bag_of(self.rows(), inexact)

    def compare(self, step: int, answer: Answer) -> Iterator[str]:
        mine, right = self.bag(answer.inexact), bag_of(answer.rows, answer.inexact)
        for shape in mine.keys() | right.keys():
            extra, missing = _unmatched(mine.get(shape, []), right.get(shape, []))
            if extra or missing:
                yield (f"{self.letter}: {self.view.view} after step {step}: {len(extra)} too many and {len(missing)} missing of "
                       f"{dict(shape)} {[*extra, *missing][:2]}")  # fmt: skip


class _Number(str):
    """A number as it was written."""


def bag_of(rows: Iterable[str | bytes], inexact: frozenset[str]) -> Bag:
    bag: Bag = defaultdict(list)
    for text in rows:
        row = json.loads(text, parse_float=_Number, parse_int=_Number)
        exact = tuple(sorted((name, _plain(value)) for name, value in row.items() if name not in inexact))
        bag[exact].append(tuple(None if row[n] is None else float(row[n]) for n in sorted(inexact)))
    return dict(bag)


def _plain(value: Any) -> Any:
    if isinstance(value, _Number):
        return ("number", str(value))
    if isinstance(value, dict):
        return ("struct", *((name, _plain(inner)) for name, inner in value.items()))
    return ("array", *map(_plain, value)) if isinstance(value, list) else (type(value).__name__, str(value))


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{_text(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    return str(value) if isinstance(value, _Number) else json.dumps(value)


def _unmatched(
    have: Sequence[tuple[float | None, ...]], want: Sequence[tuple[float | None, ...]]
) -> tuple[list[Any], list[Any]]:
    rest, extra = list(want), []
    for row in have:
        match = next((i for i, other in enumerate(rest) if all(map(_close, row, other))), None)
        if match is None:
            extra.append(row)
        else:
            rest.pop(match)
    return extra, rest


def _close(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return one == other or (one != one and other != other) or math.isclose(one, other, rel_tol=RELATIVE_ERROR_MAX)


def size_of(bag: Bag) -> int:
    return sum(map(len, bag.values()))
