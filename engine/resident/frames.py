"""A frame is one message with its buffers, as it travels over a connection.

    4 bytes    magic number with the wire version
    4 bytes    length of the head
    8 bytes    length of the body
    head       JSON: term, kind of the message, its fields, and the length of each buffer
    body       the buffers, each padded to a multiple of PADDING_BYTES

Guarantees: a frame is decoded completely or FrameError is raised. No length is trusted before it was compared with a bound. Nothing is
unpickled. Buffers are slices of the received body and are not copied.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from pydantic import ValidationError

from base.term import Term
from engine.resident.messages import Message, UnknownKind, message_of

WIRE_VERSION = 14
MAGIC = b"SW" + WIRE_VERSION.to_bytes(2)
PREFIX = struct.Struct(">4sIQ")

PADDING_BYTES = 64
"""Arrow reads buffers that begin at a multiple of it without copying them."""

HEAD_BYTES_MAX = 16 << 20
"""The head of a step with the ranges of 100,000 partitions has about 10 MB. A larger one is not ours."""

BODY_BYTES_MAX = 1 << 36
"""A step's input is bounded by `stepwell.step.bytes.max`, at most 4 GiB. An operator such as a join may multiply it."""

STRANGER_BYTES_MAX = 1 << 16
"""The bound on head and body until the other end has shown the token of the run. A registration has some hundred bytes."""


class FrameError(Exception):
    """What arrived is not a frame of this wire version. The connection must be closed, because the next frame cannot be found."""


Buffer: TypeAlias = pa.Buffer | memoryview | bytes


@dataclass(frozen=True)
class Frame:
    """A message with its term and its buffers, as it travels on a connection. `buffers`: what the message says they are."""

    term: Term
    message: Message
    buffers: tuple[Buffer, ...] = ()


@dataclass(frozen=True)
class Prefix:
    """What the first bytes of a frame say."""

    head_bytes: int
    body_bytes: int

    @staticmethod
    def decode(data: bytes | bytearray | memoryview, *, bytes_max: int | None) -> Prefix:
        """`bytes_max`: the bound on head and body; None for the bounds of a known sender. Raises FrameError."""
        magic, head_bytes, body_bytes = PREFIX.unpack(data)
        if magic != MAGIC:
            raise FrameError(
                f"a frame begins with {magic!r}, not with {MAGIC!r}: another program or another wire version"
            )
        head_max, body_max = (HEAD_BYTES_MAX, BODY_BYTES_MAX) if bytes_max is None else (bytes_max, bytes_max)
        if head_bytes > head_max or body_bytes > body_max:
            raise FrameError(f"a frame of {head_bytes} + {body_bytes} bytes exceeds the bounds {head_max} + {body_max}")
        return Prefix(head_bytes, body_bytes)


def encode(frame: Frame) -> list[Buffer]:
    """The parts of a frame, to be sent one after the other."""
    lengths = [
        len(memoryview(buffer)) if not isinstance(buffer, pa.Buffer) else buffer.size for buffer in frame.buffers
    ]
    head = b'{"term":[%d,%d],"lengths":%s,"kind":"%s","message":%s}' % (
        *frame.term,
        json.dumps(lengths).encode(),
        frame.message.kind.encode(),
        frame.message.model_dump_json().encode(),
    )
    body_bytes = sum(_padded_length(length) for length in lengths)
    parts: list[Buffer] = [PREFIX.pack(MAGIC, len(head), body_bytes) + head]
    for buffer, length in zip(frame.buffers, lengths, strict=True):
        parts.append(buffer)
        if padding := _padded_length(length) - length:
            parts.append(bytes(padding))
    return parts


def decode(head: bytes | bytearray | memoryview, body: pa.Buffer) -> Frame:
    """Raises FrameError."""
    try:
        fields = json.loads(bytes(head))
        term, lengths = Term(*map(int, fields["term"])), [int(length) for length in fields["lengths"]]
        message = message_of(fields["kind"], fields["message"])
    except ValidationError as fault:
        kinds = ", ".join(sorted({error["type"] for error in fault.errors(include_input=False, include_url=False)}))
        raise FrameError(f"the head of a frame holds no message: {kinds}") from None
    except UnknownKind as fault:
        raise FrameError(f"the head of a frame holds no message: {fault}") from None
    except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError) as fault:
        raise FrameError(f"the head of a frame cannot be read: {type(fault).__name__}") from None
    return Frame(term, message, _cut(body, lengths))


def _cut(body: pa.Buffer, lengths: Sequence[int]) -> tuple[Buffer, ...]:
    buffers, at = list[Buffer](), 0
    for length in lengths:
        if length < 0 or at + length > body.size:
            raise FrameError(f"a frame's buffers have {lengths} bytes, and its body has {body.size}")
        buffers.append(body.slice(at, length))
        at += _padded_length(length)
    if at != body.size:
        raise FrameError(f"a frame's buffers end at byte {at}, and its body has {body.size}")
    return tuple(buffers)


def _padded_length(length: int) -> int:
    return -(-length // PADDING_BYTES) * PADDING_BYTES
