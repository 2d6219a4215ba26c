"""What the disks of a world hold of the databases, read in plain Python. It shares no code with what the oracle judges."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.simulator.circuit import STATE_TABLE
from tests.simulator.disk import Disk, Environment, Records

COMMITTED = "committed"
DESCRIPTION, RECORDS, UNDO, STATE = b"m", b"r", b"u", STATE_TABLE.to_bytes(2)
OWNED, STAGED = b"\xff\xffowned", b"\xff\xffstaged"
STEP = b"\xff\xffstep"
SLOTS = 1 << 16
TRAILER_BYTES, TOMBSTONE_BYTES = 8, 4
_ATTEMPTS = 1 << 20
_LENGTH_BYTES = 8

Version = tuple[int, int, str]
Place = tuple[str, ...]
Owners = dict[int, tuple[str, list[tuple[int, int]]]]
"""By the worker's number: its birth, and the ranges of its slots. Of those that own some."""


@dataclass(frozen=True)
class Description:
    """What the oracle wants to know of a database."""

    term: tuple[int, int]
    versions: tuple[Version, ...]
    layers: int
    """Counts openings, freezes and fences."""
    opened: int
    """What `layers` was at the last opening."""
    working: str | None
    frozen: str | None
    freezing: Version | None
    worker: int
    database: str
    birth: str
    boot: str
    merging: bool
    """A fold has merged a part of the frozen layer."""


def databases(disk: Disk) -> list[tuple[tuple[str, ...], Environment]]:
    """The committed environments of databases that are there, in order."""
    return [
        (place, environment)
        for place, environment in sorted(disk.environments(), key=lambda found: found[0])
        if place[-1] == COMMITTED and not place[-2].startswith(".") and environment.now.records
    ]


def live(disk: Disk) -> list[tuple[tuple[str, ...], Environment]]:
    """The database of each number, where several hosts have one: that of the highest term. The others are copies that nobody opens any more."""
    newest: dict[str, tuple[tuple[int, int], tuple[str, ...], Environment]] = {}
    for place, environment in databases(disk):
        term = description(environment.now.records).term
        known = newest.get(place[-2])
        if known is None or term > known[0]:
            newest[place[-2]] = term, place, environment
    return [(place, environment) for _, (_, place, environment) in sorted(newest.items())]


def description(records: Records) -> Description:
    plain = json.loads(records[DESCRIPTION][:-TRAILER_BYTES])
    versions = tuple(version_of(version) for version in plain["versions"])
    uuid = plain["identity"]["database"]
    freezing = None if plain["freezing"] is None else version_of(plain["freezing"])
    return Description(
        divmod(plain["epoch"], _ATTEMPTS), versions, plain["layers_made"], plain["opened"], plain["working"], plain["frozen"],
        freezing, plain["identity"]["worker"], uuid, uuid.rsplit("/", 1)[-1], plain["boot"],
        plain["laid"] is not None,
    )  # fmt: skip


def number_of(place: Place) -> int:
    """Of the worker whose database is in a folder: NNNN, NNNN-bBIRTH, or a draft of such a one."""
    return int(place[-2].lstrip(".").split("-")[0].split(".")[0])


def owners_of(placed: Mapping[str, Any]) -> Owners:
    births = {member["worker"]: member["birth"] for member in placed["members"]}
    owners: Owners = {}
    ends = [first for first, _ in placed["ranges"][1:]] + [SLOTS]
    for (first, owner), end in zip(placed["ranges"], ends, strict=True):
        owners.setdefault(owner, (births[owner], []))[1].append((first, end))
    return owners


def ranges_of(stored: bytes) -> list[tuple[int, int]]:
    """Of the record of owned slots."""
    numbers = [int.from_bytes(stored[i : i + 4]) for i in range(0, len(stored) - TRAILER_BYTES, 4)]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def is_in(slot: int, ranges: list[tuple[int, int]]) -> bool:
    return any(first <= slot < end for first, end in ranges)


def version_of(plain: Mapping[str, Any]) -> Version:
    return plain["version"], plain["step"], plain["checkpoint_id"]


def unpacked(kept: bytes) -> bytes:
    """The former record, from what the undo keeps of it. Those of the simulator are too small to be compressed."""
    assert not any(kept[:_LENGTH_BYTES]), kept
    return kept[_LENGTH_BYTES:-TRAILER_BYTES]
