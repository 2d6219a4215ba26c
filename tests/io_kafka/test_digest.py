"""Digests and canonical order, against slow obvious twins."""

from __future__ import annotations

import struct

import pyarrow as pa
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from io_kafka.step_log.digest import MESSAGES_SCHEMA, canonical, digest, digests, partition_bounds

PARTITIONS = 4
OPTIONAL_BYTES = st.none() | st.binary(max_size=5)
MESSAGES = st.lists(st.tuples(st.integers(0, PARTITIONS - 1), OPTIONAL_BYTES, OPTIONAL_BYTES), max_size=20)
Message = tuple[int, bytes | None, bytes | None]


def table(messages: list[Message]) -> pa.Table:
    columns = [list(column) for column in zip(*messages, strict=True)] or [[], [], []]
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, MESSAGES_SCHEMA, strict=True)], schema=MESSAGES_SCHEMA
    )


def rows(messages: pa.Table) -> list[Message]:
    return [(m["partition"], m["key"], m["value"]) for m in messages.to_pylist()]


def slow_canonical(messages: list[Message]) -> list[Message]:
    return sorted(messages, key=lambda m: (m[0], m[1] is not None, m[1] or b"", m[2] is not None, m[2] or b""))


def slow_digest(messages: list[tuple[bytes | None, bytes | None]], encoder: str) -> str:
    text = struct.pack("<qq", len(encoder.encode()), len(messages)) + encoder.encode()
    for column in (0, 1):
        items = [m[column] for m in messages]
        text += b"".join(struct.pack("<q", -1 if item is None else len(item)) for item in items)
        text += b"".join(item or b"" for item in items)
    return xxhash.xxh3_128_hexdigest(text)


@settings(deadline=None)
@given(MESSAGES)
def test_canonical_order(messages: list[Message]) -> None:
    assert rows(canonical(table(messages))) == slow_canonical(messages)


@settings(deadline=None)
@given(MESSAGES, st.integers(0, 3), st.text(max_size=3))
def test_digests_are_those_of_the_twin(messages: list[Message], skip: int, encoder: str) -> None:
    ordered = slow_canonical(messages)
    padded = table([(0, b"gone", None)] * skip + ordered).slice(skip)  # a slice of larger buffers
    assert digests(padded, PARTITIONS, encoder) == tuple(
        slow_digest([(k, v) for p, k, v in ordered if p == partition], encoder) for partition in range(PARTITIONS)
    )


@settings(deadline=None)
@given(MESSAGES, st.data())
def test_chunks_do_not_matter(messages: list[Message], data: st.DataObject) -> None:
    whole = canonical(table(messages))
    cut = data.draw(st.integers(0, len(messages)))
    chunked = pa.concat_tables([whole.slice(0, cut), whole.slice(cut)])
    assert digests(chunked, PARTITIONS, "e") == digests(whole, PARTITIONS, "e")


@settings(deadline=None)
@given(MESSAGES, MESSAGES)
def test_digests_are_equal_exactly_when_the_messages_are(left: list[Message], right: list[Message]) -> None:
    one, two = (digests(canonical(table(m)), PARTITIONS, "e") for m in (left, right))
    assert (one == two) == (slow_canonical(left) == slow_canonical(right))


def test_similar_messages_have_different_digests() -> None:
    lists: list[list[tuple[bytes | None, bytes | None]]] = [
        [], [(None, None)], [(b"", None)], [(None, b"")], [(b"", b"")], [(b"a", b"")], [(b"", b"a")], [(b"ab", b"c")],
        [(b"a", b"bc")], [(b"a", b"c"), (b"b", b"")], [(None, None)] * 2,
    ]  # fmt: skip
    found = [
        digest(pa.array([k for k, _ in m], pa.binary()), pa.array([v for _, v in m], pa.binary()), "e") for m in lists
    ]
    assert len(set(found)) == len(lists)
    # Another encoder, even if empty.
    assert digest(pa.array([], pa.binary()), pa.array([], pa.binary()), "f") not in found


def test_bytes_under_a_null_do_not_count() -> None:
    """Arrow lets a null row span bytes: only the mask decides."""
    offsets, data = pa.py_buffer(struct.pack("<3i", 0, 3, 4)), pa.py_buffer(b"xyzb")
    hidden = pa.Array.from_buffers(pa.binary(), 2, [pa.py_buffer(b"\x02"), offsets, data])
    plain = pa.array([None, b"b"], pa.binary())
    assert hidden.to_pylist() == plain.to_pylist()
    assert digest(hidden, hidden, "e") == digest(plain, plain, "e")


def test_the_digest_is_frozen() -> None:
    """A change here is a change of the format: old logs could not be replayed. Give the encoder another id instead."""
    keys, values = pa.array([None, b"k"], pa.binary()), pa.array([b"v", None], pa.binary())
    assert digest(keys, values, "json-1") == "a1c960371ec00fa4db7a72e237812750"


def test_bounds_of_partitions() -> None:
    assert partition_bounds(table([(1, None, None), (1, None, None), (3, None, None)]), 4) == [0, 0, 2, 2, 3]
    assert partition_bounds(table([]), 2) == [0, 0, 0]
