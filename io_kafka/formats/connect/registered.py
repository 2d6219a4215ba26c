"""JSON with the id of its schema: a byte 0, four bytes of the id, and the text, as serializers for JSON Schema write it with a registry."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa

from base.arrays import Int64s
from base.text.columns import bytes_of, nulls_of
from io_kafka.formats.connect.json_schema import type_of_text
from io_kafka.formats.connect.read import (
    ParsePlain,
    Typed,
    WantedColumns,
    merge_parts,
    read_typed,
    refuse_all,
    typed_of,
)
from io_kafka.formats.connect.types import Unknown
from io_kafka.formats.cursor import cut_out
from io_kafka.formats.encodings import JsonWithRegistry
from io_kafka.formats.jackson import Malformed
from io_kafka.formats.parse import Parsed
from io_kafka.registry.client import UnknownSchema, registry_at

HEADER_BYTES = 5
_SHORT = "it begins with 0, as a registry's messages do, and then has no schema id"


def parse_registered(values: pa.Array, encoding: JsonWithRegistry, wanted: WantedColumns, others: ParsePlain) -> Parsed:
    """`others` reads what has no id. Raises RegistryUnreachable and RegistryRefused."""
    at = find_framed(values)
    if not len(at):
        return others(values)
    ids = _ids(values, at)
    rest = np.setdiff1d(np.arange(len(values)), at)
    found: list[tuple[Int64s, Parsed]] = [(rest, others(values.take(pa.array(rest))))] if len(rest) else []
    for number in np.unique(ids).tolist():
        mine = at[ids == number]
        found.append((mine, _of_schema(_texts(values, mine), number, encoding, wanted, others)))
    return merge_parts(found, wanted.schema)


def _texts(values: pa.Array, at: Int64s) -> pa.Array:
    """What stands behind the id."""
    data, ends = bytes_of(values)
    lengths = np.maximum(np.diff(ends)[at].astype(np.int64) - HEADER_BYTES, 0)
    return cut_out(data, ends[1:][at].astype(np.int64) - lengths, lengths)


def _of_schema(
    texts: pa.Array, number: int, encoding: JsonWithRegistry, wanted: WantedColumns, others: ParsePlain
) -> Parsed:
    schema = wanted.schema
    if number < 0:
        return refuse_all(len(texts), schema, _SHORT)
    try:
        registry_at(encoding.registry).check_counts(number)
        typed = _typed_schema(encoding, number, wanted)
    except UnknownSchema as fault:
        return refuse_all(len(texts), schema, str(fault))
    except Malformed as fault:
        return refuse_all(len(texts), schema, f"schema id {number}: {fault}")
    return others(texts) if typed is None else read_typed(texts, typed, wanted)


@lru_cache(maxsize=1024)  # of a process: one for each schema of a producer and each use of it
def _typed_schema(encoding: JsonWithRegistry, number: int, wanted: WantedColumns) -> Typed | None:
    """None if the schema says nothing that JSON does not say itself. Raises Malformed and UnknownSchema."""
    found = registry_at(encoding.registry).schema(number)
    if found.kind != "JSON":
        raise Malformed(f"it is a schema of {found.kind}, and the table's format is json")
    type_ = type_of_text(found.text)
    return None if isinstance(type_, Unknown) else typed_of(type_, wanted)


def find_framed(values: pa.Array) -> Int64s:
    """The numbers of the messages that begin with 0, which no JSON does."""
    data, ends = bytes_of(values)
    if not len(data):
        return np.zeros(0, np.int64)
    first = data.take(ends[:-1], mode="clip")
    return np.flatnonzero((first == 0) & (np.diff(ends) > 0) & ~nulls_of(values))


def _ids(values: pa.Array, at: Int64s) -> Int64s:
    """-1 for a message that is too short for one."""
    data, ends = bytes_of(values)
    starts = ends[:-1][at].astype(np.int64)
    head = data.take(starts[:, None] + np.arange(1, HEADER_BYTES), mode="clip").astype(np.int64)
    ids = head @ np.array([1 << 24, 1 << 16, 1 << 8, 1], np.int64)
    return np.where(np.diff(ends)[at] < HEADER_BYTES, -1, ids)


def explain_ids(parsed: Parsed, values: pa.Array, what_to_set: str) -> Parsed:
    """Makes the reasons of messages with an id say what these messages are. It is for a table without a registry."""
    if not parsed.faults:
        return parsed
    ids = dict(zip((at := find_framed(values)).tolist(), _ids(values, at).tolist(), strict=True)) if len(values) else {}
    faults = [
        (row, f"it begins with 0 and the schema id {ids[row]}, as a schema registry's messages do; {what_to_set}")
        if ids.get(row, -1) >= 0
        else (row, reason)
        for row, reason in parsed.faults
    ]
    return parsed._replace(faults=faults)
