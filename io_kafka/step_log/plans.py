"""Plan documents as messages: the text of a document is compressed and cut into parts.

The topic of plan documents is compacted. The key of a message is `SHA-256/part/parts`, where SHA-256 is that of the text
and names the document. Each document is written before the record that first names it, or in its transaction, so a document
that a record of the step log names is whole. What is read is compared with its name, so no other document can take its place.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from hashlib import sha256

from io_kafka.errors import KafkaFault

PART_BYTES_MAX = 500_000
"""A broker takes messages of 1 MB unless it is set up otherwise. The 103 views of TPC-DS have 64 kB, and functions in Python add theirs."""


class PlanMissing(KafkaFault):
    """The step log names a plan document that the topic of plan documents does not have."""

    def __init__(self, topic: str, digest: str) -> None:
        super().__init__(
            f"topic {topic!r} does not have the plan document {digest}, which the step log names. Nothing was changed.",
            "Restore that topic, or take all output back and rebuild the state with `stepwell run --full-refresh`.",
        )


def digest_of(text: str) -> str:
    """The name of the document with this text: 64 hexadecimal digits."""
    return sha256(text.encode()).hexdigest()


def messages_of(text: str) -> list[tuple[bytes, bytes]]:
    """The messages of a document, each (key, value)."""
    packed, digest = zlib.compress(text.encode()), digest_of(text)
    parts = [packed[at : at + PART_BYTES_MAX] for at in range(0, len(packed), PART_BYTES_MAX)]
    return [(f"{digest}/{number}/{len(parts)}".encode(), part) for number, part in enumerate(parts)]


def text_in(messages: Iterable[tuple[bytes | None, bytes | None]], digest: str) -> str | None:
    """The text of the document with this name, of the messages (key, value) of the topic in order. None if it is not there whole, or if
    it is not the document that has this name."""
    parts: dict[bytes, bytes] = {}
    for key, value in messages:
        if key is not None and value is not None and key.startswith(f"{digest}/".encode()):
            parts[key] = value
    if not parts:
        return None
    count = int(next(iter(parts)).rpartition(b"/")[2])
    try:
        packed = b"".join(parts[f"{digest}/{number}/{count}".encode()] for number in range(count))
        text = zlib.decompress(packed).decode()
    except (KeyError, zlib.error, UnicodeDecodeError):
        return None
    return text if digest_of(text) == digest else None
