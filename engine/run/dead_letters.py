"""Dead letters: the messages that tell what a malformed message was, where it was, and why it is malformed.

A worker makes them and sends them to the coordinator, which writes them in the step's transaction. Letters of equal messages are equal, and the
size of a letter has a bound that depends on its message alone.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from io_kafka.formats.spec import Rejected
from io_kafka.messages import TopicMessages

DEAD_LETTER_SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary())])
"""The schema of the dead letters of a source, as a worker sends them to the coordinator."""

LETTER_TEXT_BYTES_MAX = 4 * 1024 * 1024
"""The largest value that a letter has as text, with its escapes, of which a control character takes six bytes. A longer one is in base64, which
makes it a third longer whatever it is. So the letters of messages of up to 3 MiB fit into the 8 MiB of the topics that Stepwell creates."""

ESCAPED_BYTES_MAX = 6
"""How many bytes of JSON one byte of a text can take."""

LETTER_REST_BYTES_MAX = 64 * 1024
"""What a letter has beside key and value, which is the place and the reason. A reason names some columns and values, in some hundred
bytes."""

LOST = "The topic was compacted before the message was read again for this letter."


class DeadLetter(NamedTuple):
    """A message for a dead-letter topic. `key` is that of the malformed message. `value` is JSON: the original value, its place, the
    reason. A value that is no UTF-8, or is very long, is in base64."""

    key: bytes | None
    value: bytes


def letters(records: TopicMessages, rejected: Sequence[Rejected], *, is_binary: bool) -> list[DeadLetter]:
    """The dead letters of malformed messages. One that is not among `records` was compacted away since it was read: its letter says so, and has
    neither key nor value. `is_binary`: see SourceTable."""
    places = zip(records.partitions.to_pylist(), records.messages.offsets.to_pylist(), strict=True)
    positions = {place: i for i, place in enumerate(places)}
    found: list[DeadLetter] = []
    for partition, offset, reason in rejected:
        place = {"topic": records.topic, "partition": partition, "offset": offset, "reason": reason}
        at = positions.get((partition, offset))
        key = None if at is None else records.messages.keys[at].as_py()
        shown = {"lost": LOST} if at is None else _value_shown(records.messages.values[at].as_py(), is_binary)
        found.append(DeadLetter(key, json.dumps({**place, **shown}, ensure_ascii=False).encode()))
    return found


def letter_bytes_max(message_bytes: int) -> int:
    """The bytes of the largest letter of a message whose key and value have so many bytes."""
    as_text = min(ESCAPED_BYTES_MAX * message_bytes, LETTER_TEXT_BYTES_MAX + message_bytes)
    return max(as_text, 4 * message_bytes // 3) + LETTER_REST_BYTES_MAX


def _value_shown(value: bytes | None, is_binary: bool) -> dict[str, str | None]:
    """The value as it is, in base64 where text would not tell what the bytes were or would be too long."""
    if value is None:
        return {"value": None}
    text = None if is_binary else _text_of(value)
    return {"valueBase64": base64.b64encode(value).decode()} if text is None else {"value": text}


def _text_of(value: bytes) -> str | None:
    """The value as text; None if it is none, or too long a one."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    if ESCAPED_BYTES_MAX * len(value) <= LETTER_TEXT_BYTES_MAX:
        return text
    return text if len(json.dumps(text, ensure_ascii=False).encode()) <= LETTER_TEXT_BYTES_MAX else None
