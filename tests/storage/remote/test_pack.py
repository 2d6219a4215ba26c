"""A pack is read as it was written, and whatever else is read is refused by name."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh3_64_digest

from base.version import VersionId
from storage import description, records
from storage.remote import pack
from storage.remote.errors import DamagedPack, ForeignPack, OtherPackFormat, PackError
from storage.remote.pack import PackHeader, Record, Totals
from storage.remote.unpacking import PackReader, end_of
from tests.examples import examples
from tests.storage.helpers import ME

V1, V2 = VersionId(1, 10, "c1"), VersionId(2, 20, "c2")
BASE, DELTA = PackHeader(ME, "base", V1), PackHeader(ME, "delta", V2, V1)
NAME = "packs/0000/2"


def packed(items: Iterable[Record], header: PackHeader = DELTA) -> bytes:
    return b"".join(pack.pieces(header, pack.blocks(items), Totals()))


def cut(content: bytes, piece_bytes: int) -> Iterator[bytes]:
    return (content[place : place + piece_bytes] for place in range(0, len(content), piece_bytes))


def unpacked(content: bytes, piece_bytes: int = 7) -> list[tuple[bytes, bytes]]:
    reader = PackReader(NAME, cut(content, piece_bytes))
    reader.expect(DELTA)
    return [(key, bytes(stored)) for key, stored in reader.records()]


def some(count: int = 5) -> list[Record]:
    found: list[Record] = [(b"a%d" % n, records.encode(b"a%d" % n, bytes([n]) * 30)) for n in range(count)]
    return [*found, (b"b", records.tombstone(b"b")), (b"c", records.encode(b"c", b""))]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "BLOCK_BYTES", 60)


@settings(max_examples=examples(100), deadline=None)
@given(
    content=st.dictionaries(st.binary(min_size=1, max_size=9), st.binary(max_size=90) | st.none(), max_size=20),
    block_bytes=st.integers(1, 300),
    piece_bytes=st.integers(1, 300),
)
def test_what_was_packed_is_unpacked(content: dict[bytes, bytes | None], block_bytes: int, piece_bytes: int) -> None:
    items = [
        (key, records.tombstone(key) if value is None else records.encode(key, value))
        for key, value in sorted(content.items())
    ]
    before, pack.BLOCK_BYTES = pack.BLOCK_BYTES, block_bytes
    try:
        whole = packed(items)
    finally:
        pack.BLOCK_BYTES = before
    assert unpacked(whole, piece_bytes) == items
    raw_bytes = sum(len(key) + len(stored) for key, stored in items)
    assert end_of(NAME, whole[-pack.END_BYTES :]) == Totals(len(items), raw_bytes)


@pytest.mark.usefixtures("small_blocks")
def test_every_flipped_bit_is_noticed_or_harmless() -> None:
    """zstd does not read a few bits of its own header. They are noticed by the digest of the whole pack (test_restoring.py)."""
    whole, harmless = packed(some()), 0
    for place, bit in itertools.product(range(len(whole)), range(8)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << bit
        try:
            assert unpacked(bytes(damaged), 1000) == some()
        except PackError as fault:
            assert fault.name == NAME and NAME in str(fault)
        else:
            harmless += 1
    assert harmless <= 4 * len(list(pack.blocks(some())))


@pytest.mark.usefixtures("small_blocks")
def test_every_missing_end_and_anything_more_is_noticed() -> None:
    whole = packed(some())
    for size in range(len(whole)):
        with pytest.raises(DamagedPack, match=NAME):
            unpacked(whole[:size], 1000)
    for more in (b"\0", whole):
        with pytest.raises(DamagedPack, match="something follows"):
            unpacked(whole + more)


@pytest.mark.usefixtures("small_blocks")
def test_a_block_that_is_left_out_or_comes_twice_is_noticed() -> None:
    header, end = pack.encode_header(DELTA), packed([])[-pack.END_BYTES :]
    first, second, *others = (block.fields + block.content for block in pack.blocks(some()))
    end = packed(some())[-pack.END_BYTES :]
    assert unpacked(header + first + second + b"".join(others) + end)
    with pytest.raises(DamagedPack, match=r"it has \d of 7 records"):
        unpacked(header + second + b"".join(others) + end)
    for wrong in (first + first, second + first):
        with pytest.raises(DamagedPack, match=r"key \w+ follows"):
            unpacked(header + wrong + b"".join(others) + end)


def test_a_record_under_another_key_is_noticed() -> None:
    with pytest.raises(DamagedPack, match=f"key {b'z'.hex()}"):
        unpacked(packed([(b"z", records.encode(b"y", b"value"))]))


def test_another_pack_is_named() -> None:
    for other in (
        replace(DELTA, identity=replace(ME, worker=1)),
        replace(DELTA, identity=replace(ME, database="another")),
        replace(DELTA, to=replace(V2, checkpoint_id="another")),
        replace(DELTA, since=replace(V1, checkpoint_id="another")),
        BASE,
    ):
        with pytest.raises(ForeignPack, match=NAME):
            unpacked(packed(some(), other))


def test_another_format_is_named() -> None:
    whole = packed(some())
    other = whole[:8] + (pack.FORMAT + 1).to_bytes(2) + whole[10:]
    with pytest.raises(OtherPackFormat, match=f"{NAME} is in format {pack.FORMAT + 1}"):
        unpacked(other)
    with pytest.raises(OtherPackFormat, match=f"format {description.FORMAT + 1}"):
        unpacked(packed(some(), replace(DELTA, database_format=description.FORMAT + 1)))


def test_a_header_of_another_form_is_damage() -> None:
    text = b'{"kind": "delta"}'
    fields = pack.PREFIX.pack(pack.MAGIC, pack.FORMAT, len(text)) + text
    with pytest.raises(DamagedPack, match="header"):
        unpacked(fields + xxh3_64_digest(fields) + packed(some())[len(pack.encode_header(DELTA)) :])


def test_packing_and_unpacking_hold_a_block_and_no_more() -> None:
    """The writer asks for records as it goes, and so does the reader for pieces."""
    asked = 0

    def many() -> Iterator[Record]:
        nonlocal asked
        for n in range(400):
            asked += 1
            key = n.to_bytes(4)
            yield key, records.encode(key, bytes(40_000))

    written, parts = list[bytes](), list[bytes]()
    for piece in pack.pieces(DELTA, pack.blocks(many()), Totals()):
        written.append(piece)
        if len(written) == 3:  # the header, and a block
            assert asked * 40_000 < 2 * pack.BLOCK_BYTES
    source = iter(written)
    read = PackReader(NAME, (parts.append(piece) or piece for piece in source)).records()
    next(read)
    assert len(parts) <= 4 < len(written) / 2
    assert sum(1 for _ in read) == 399
