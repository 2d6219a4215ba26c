"""A dead letter shows the bytes of its message, and is not larger than the message lets expect."""

from __future__ import annotations

import base64
import json
from typing import Any

import pyarrow as pa
import pytest

from engine.run import dead_letters
from engine.run.dead_letters import letter_bytes_max, letters
from engine.run.source_table import SourceTable
from io_kafka.formats.encodings import Csv, DescribedProtobuf, Encoding, JsonWithRegistry, PlainAvro, Text
from io_kafka.formats.spec import Rejected, SourceFormat
from io_kafka.messages import Messages, TopicMessages
from io_kafka.registry.address import RegistryAddress


def test_letters_tell_bytes_from_the_text_of_their_escapes() -> None:
    values = [b"\\xff", b"\xff", None, b'"\n\xc3\xa9']
    assert [each for each, _ in shown_in_letters(values)] == [
        {"value": "\\xff"}, {"valueBase64": "/w=="}, {"value": None}, {"value": '"\né'}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("encoding", "is_binary"),
    [
        (None, False),
        (Csv(), False),
        (Text(), False),
        (PlainAvro("{}"), True),
        (DescribedProtobuf(b"", "a.B", False), True),
        (JsonWithRegistry(RegistryAddress("http://registry", None)), True),
    ],
)
def test_what_people_can_read_is_shown_as_text(encoding: Encoding, is_binary: bool) -> None:
    form = SourceFormat("in", pa.schema([("text", pa.string())]), "append", encoding=encoding)
    assert SourceTable("in", ("in",), form).is_binary == is_binary


@pytest.mark.parametrize("unit", [b"\x01", b'"', b"x", b"\xff", "é".encode()])
def test_no_letter_is_larger_than_its_message_lets_expect(unit: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "LETTER_TEXT_BYTES_MAX", 600)
    monkeypatch.setattr(dead_letters, "LETTER_REST_BYTES_MAX", 120)
    for count in (0, 50, 99, 150, 300, 590, 700, 3000):
        value = unit * count
        [(shown, size)] = shown_in_letters([value])
        assert size <= letter_bytes_max(len(value)) and size <= 120 + max(600, 4 * len(value) // 3 + 4)
        assert (
            base64.b64decode(shown["valueBase64"]) == value
            if "valueBase64" in shown
            else shown["value"].encode() == value
        )


def shown_in_letters(values: list[bytes | None]) -> list[tuple[dict[str, Any], int]]:
    """What the letters of these messages have of their values, and their sizes in bytes."""
    keys, column = pa.nulls(len(values), pa.binary()), pa.array(values, pa.binary())
    messages = Messages.plain(keys, column, pa.array(range(len(values))))
    records = TopicMessages("in", pa.array([0] * len(values), pa.int32()), messages)
    rejected = [Rejected(0, offset, "why") for offset in range(len(values))]
    found = [letter.value for letter in letters(records, rejected, is_binary=False)]
    named = [json.loads(letter) for letter in found]
    return [
        ({k: v for k, v in each.items() if k.startswith("value")}, len(text))
        for each, text in zip(named, found, strict=True)
    ]
