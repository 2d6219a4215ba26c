"""Plan documents as messages of a compacted topic."""

from __future__ import annotations

import random

import pytest

from io_kafka.step_log import plans
from io_kafka.step_log.plans import digest_of, messages_of, text_in

TEXT = "".join(random.Random(1).choices("abcdefgh", k=5_000))
OTHER = '{"circuit": "höhe"}'


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "PART_BYTES_MAX", 300)


def test_a_document_is_found_among_others_and_in_any_order() -> None:
    both = messages_of(TEXT) + messages_of(OTHER)
    assert len(messages_of(TEXT)) > 3 and all(len(value) <= 300 for _, value in both)
    for messages in (both, both[::-1], both + both):
        assert text_in(messages, digest_of(TEXT)) == TEXT
        assert text_in(messages, digest_of(OTHER)) == OTHER


def test_messages_of_one_document_are_always_the_same() -> None:
    """So a document that is written twice leaves one copy after compaction."""
    assert messages_of(TEXT) == messages_of(TEXT)
    assert len({key for key, _ in messages_of(TEXT)}) == len(messages_of(TEXT))


def _broken(how: str) -> list[tuple[bytes | None, bytes | None]]:
    first, second, *rest = messages_of(TEXT)
    other, own = digest_of(OTHER).encode(), digest_of(TEXT).encode()
    broken: dict[str, list[tuple[bytes, bytes]]] = {
        "nothing": [],
        "another document": messages_of(OTHER),
        "no first part": [second, *rest],
        "no last part": [first, second, *rest[:-1]],
        "a part of something else": [first, (second[0], b"x"), *rest],
        "another name": [(key.replace(other, own), value) for key, value in messages_of(OTHER)],
    }
    return [*broken[how]]


@pytest.mark.parametrize(
    "how",
    [
        "nothing",
        "another document",
        "no first part",
        "no last part",
        "a part of something else",
        "another name",
    ],
)
def test_what_is_not_the_document_is_none(how: str) -> None:
    assert text_in(_broken(how), digest_of(TEXT)) is None


def test_tombstones_and_messages_without_a_key_are_passed_over() -> None:
    strange: list[tuple[bytes | None, bytes | None]] = [(None, b"x"), (b"k", None), (b"", b"")]
    assert text_in([*strange, *messages_of(TEXT)], digest_of(TEXT)) == TEXT
