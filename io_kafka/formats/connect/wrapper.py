"""Messages {"schema": S, "payload": P}, in either order, as JsonConverter writes them: which they are, and where their payloads lie.

A form is the bytes before the payload and those behind it, so it holds the schema. The messages of one producer have few forms, because it
writes a schema in one way. So a form is found once, in one message, and then all messages that begin and end alike are compared with it at once.

Whether P is one value of JSON is not looked at here: if it is, the message is a wrapper in this form, and otherwise whoever reads P refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import Bools, Int64s, UInt8s, fill
from base.text.columns import bytes_of, nulls_of
from io_kafka.formats.cursor import cut_out

FORMS_MAX = 16
"""How many forms of a batch are compared with all messages. If there are more, the remaining messages are looked at one by one."""

_SPACE = rb"[ \t\r\n]*+"
_FIRST = re.compile(_SPACE + rb"\{" + _SPACE + rb'"(schema|payload)"' + _SPACE + b":" + _SPACE)
_SECOND = re.compile(_SPACE + b"," + _SPACE + rb'"(schema|payload)"' + _SPACE + b":" + _SPACE)
_END = re.compile(_SPACE + rb"\}" + _SPACE)
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_TEXT = re.compile(_STRING, re.DOTALL)
_WORD = re.compile(rb"[^\s,\[\]{}\"]++")
_TOKEN = re.compile(_STRING + rb"|[{}\[\]]", re.DOTALL)
_BEGINS = r'^[ \t\r\n]*\{[ \t\r\n]*"(?:schema|payload)"[ \t\r\n]*:'
_NULL_BEHIND, _NULL_BEFORE = r":[ \t\r\n]*null[ \t\r\n]*\}[ \t\r\n]*$", r'"payload"[ \t\r\n]*:[ \t\r\n]*null[ \t\r\n]*,'
_EDGE = 64
"""Bytes at the end or the begin of a message in which a payload that is null would stand. With more whitespace it is no tombstone."""

_WORD_BYTES = 4
_HEADS, _NAMES = np.frombuffer(b'{"sc{"pa', np.uint32), np.frombuffer(b"schepayl", np.uint32)
_BEGIN, _TWO_BYTES = np.frombuffer(b'{"\0\0\xff\xff\0\0', np.uint32)


class Form(NamedTuple):
    """A form of wrappers: all that have one schema. `schema`: its text."""

    before: bytes
    behind: bytes
    schema: bytes


class Group(NamedTuple):
    """Messages of one schema. `at`: their numbers, ascending. `payloads`: the text of each payload."""

    schema: bytes
    at: Int64s
    payloads: pa.Array


def groups_of(values: pa.Array) -> list[Group]:
    """The wrapped messages, by their schemas. `values`: binary."""
    left = np.flatnonzero(_perhaps_wrapped(values))
    found: dict[bytes, list[tuple[Int64s, pa.Array]]] = {}
    for form, at in _by_form(values, left):
        found.setdefault(form.schema, []).append((at, _payloads(values, at, form)))
    return [_group(schema, parts) for schema, parts in found.items()]


def _by_form(values: pa.Array, left: Int64s) -> Iterator[tuple[Form, Int64s]]:
    for _ in range(FORMS_MAX):
        form: Form | None = None
        while len(left) and form is None:
            form = form_of(values[int(left[0])].as_py())
            if form is None:
                left = left[1:]
        if form is None:
            return
        alike = _have(values.take(pa.array(left)) if len(left) < len(values) else values, form)
        yield form, left[alike]
        left = left[~alike]
    rest: dict[Form, list[int]] = {}
    for row in left.tolist():
        form = form_of(values[row].as_py())
        if form is not None:
            rest.setdefault(form, []).append(row)
    for form, rows in rest.items():
        yield form, np.array(rows, np.int64)


def _have(values: pa.Array, form: Form) -> Bools:
    long = pc.greater(pc.binary_length(values), len(form.before) + len(form.behind))
    alike = pc.and_(pc.starts_with(values, pattern=form.before), pc.ends_with(values, pattern=form.behind))
    return np.asarray(pc.and_(long, alike).to_numpy(zero_copy_only=False), np.bool_)


def _payloads(values: pa.Array, at: Int64s, form: Form) -> pa.Array:
    data, ends = bytes_of(values)
    starts = ends[:-1][at].astype(np.int64) + len(form.before)
    return cut_out(data, starts, ends[1:][at].astype(np.int64) - len(form.behind) - starts)


def _group(schema: bytes, parts: list[tuple[Int64s, pa.Array]]) -> Group:
    if len(parts) == 1:
        return Group(schema, *parts[0])
    at = np.concatenate([places for places, _ in parts])
    order = np.argsort(at)
    return Group(schema, at[order], pa.concat_arrays([payloads for _, payloads in parts]).take(pa.array(order)))


def _perhaps_wrapped(values: pa.Array) -> Bools:
    """The messages that begin as one does. Nearly all others are known by their first four bytes, which are read at once."""
    data, ends = bytes_of(values)
    if len(data) < _WORD_BYTES:
        return np.zeros(len(values), np.bool_)
    first = _words(data, ends[:-1])
    perhaps: Bools = (first == _HEADS[0]) | (first == _HEADS[1])
    found = np.flatnonzero(perhaps)
    if len(found):
        second = _words(data, ends[:-1][found] + 2)
        perhaps[found] = (second == _NAMES[0]) | (second == _NAMES[1])
    odd = (first & _TWO_BYTES) != _BEGIN
    if odd.any():
        perhaps[odd] = _matches(values.filter(pa.array(odd)), _BEGINS)
    if values.null_count:
        perhaps &= ~nulls_of(values)
    return perhaps


def _words(data: UInt8s, at: npt.NDArray[np.int32]) -> npt.NDArray[np.uint32]:
    """Four bytes from each place, which need not be a multiple of four. At the end of the data they are others."""
    every = np.ndarray((len(data) - _WORD_BYTES + 1,), np.uint32, data, strides=(1,))
    words: npt.NDArray[np.uint32] = every[np.minimum(at, len(every) - 1)]  # `take` would copy all of it
    return words


def _matches(values: pa.Array, pattern: str) -> Bools:
    return np.asarray(fill(pc.match_substring_regex(values, pattern), False).to_numpy(zero_copy_only=False), np.bool_)


def form_of(message: bytes) -> Form | None:
    """None if the message has another form than {"schema": S, "payload": P}."""
    first = _FIRST.match(message)
    if first is None:
        return None
    first_end = _value_end(message, first.end())
    second = _SECOND.match(message, first_end) if first_end is not None else None
    if first_end is None or second is None or second[1] == first[1]:
        return None
    second_end = _value_end(message, second.end())
    if second_end is None or _END.fullmatch(message, second_end) is None:
        return None
    if first[1] == b"schema":
        return Form(message[: second.end()], message[second_end:], message[first.end() : first_end])
    return Form(message[: first.end()], message[first_end:], message[second.end() : second_end])


def _value_end(message: bytes, at: int) -> int | None:
    """Where the value ends that begins there; None if it does not end, or if there is none."""
    opened = message[at : at + 1]
    if opened not in (b"{", b"["):
        scalar = (_TEXT if opened == b'"' else _WORD).match(message, at)
        return None if scalar is None else scalar.end()
    depth = 0
    for token in _TOKEN.finditer(message, at):
        if token[0] in (b"{", b"["):
            depth += 1
        elif token[0] in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                return token.end()
    return None


def perhaps_null(values: pa.Array) -> Int64s:
    """The numbers of the messages that may be wrappers of a payload that is null."""
    wrapped = np.flatnonzero(_perhaps_wrapped(values))
    if not len(wrapped):
        return wrapped
    data, ends = bytes_of(values)
    starts, stops = ends[:-1][wrapped].astype(np.int64), ends[1:][wrapped].astype(np.int64)
    edge = np.minimum(stops - starts, _EDGE)
    last, first = cut_out(data, stops - edge, edge), cut_out(data, starts, edge)
    return wrapped[_matches(last, _NULL_BEHIND) | _matches(first, _NULL_BEFORE)]
