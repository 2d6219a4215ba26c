"""What must hold of the checkpoint store of a world, said again in plain Python. It shares no code with what it judges.

At every record of a stored version: the version was complete, with these owners; every object that its manifest names is there, as it was
written; and the packs of each owner add up to the records that its database had when it had that version. From then on these objects stay,
until another version is stored, and those of a backup until it is deleted. A version of a database has the same records wherever it is: also
when it was restored. A run whose settings say `pause` takes no new step while the store is late.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from xxhash import xxh3_128_hexdigest

Records = dict[bytes, bytes]
Version = tuple[int, int, str]
Owners = dict[int, tuple[str, list[tuple[int, int]]]]

_MAGIC_BYTES, _LENGTH, _CHECK_BYTES = 10, struct.Struct(">I"), 8
_FRAME, _RECORD = struct.Struct(">cQQQ8s"), struct.Struct(">HI")
_TOMBSTONE_BYTES = 4

STEPS_LATE_MAX = 2
"""So many may be under way when the store begins to be late: the workers have the next step before the last one is written."""


class StoreOracle:
    """`objects`: those of the store. `contents`: the records of each version of each database. `lost`: what was on disks that are gone: worker,
    birth and version. `lag_s_max`: None if steps never wait for the store."""

    def __init__(self, objects: Mapping[str, bytes], lag_s_max: float | None) -> None:
        self._objects, self._lag_s_max = objects, lag_s_max
        self.contents: dict[tuple[str, Version], Records] = {}
        self.completed: dict[Version, Owners] = {}
        self.lost: set[tuple[int, str, Version]] = set()
        self.stored: Version | None = None
        self.log_id = ""
        self.plain: Mapping[str, Any] | None = None
        """The record of the stored version."""
        self._root_step = 0
        self._needed: dict[str, dict[str, str]] = {}
        """By what needs them ("" is the stored version): objects and their digests."""
        self._complete: Version | None = None
        self._behind_since: float | None = None
        self._steps_late = 0
        self.seen = {"stored": 0, "restored": 0, "deltas stored": 0, "layouts restored": 0, "late": 0, "backups": 0}

    @property
    def can_restore(self) -> bool:
        """Whether a lost disk can be made again."""
        return self.stored is not None and self.stored[1] >= self._root_step

    # The log

    def begins_with(self, step: int) -> None:
        """A project was recorded that continues the state of another one, whose steps are never run again."""
        self._root_step = step

    def complete(self, version: Version, owners: Owners) -> None:
        self.completed[version] = owners
        self._complete = version

    def record(self, record: Mapping[str, Any], version: Version, owners: Owners) -> None:
        """A version is recorded as stored."""
        assert version in self.completed, f"{version} is stored, and was never complete"
        assert self.completed[version] == owners, f"{version} is stored with the owners {owners}"
        assert not record.get("restores"), "nobody has asked for that"
        self.stored, self.plain = version, record
        self._needed[""] = self._checked(record["manifest"], record["digest"], version, owners)
        self._behind_since, self._steps_late = None, 0
        self.seen["stored"] += 1

    def _checked(self, name: str, digest: str, version: Version, owners: Owners) -> dict[str, str]:
        """The objects that a manifest names, and itself, with their digests."""
        assert name in self._objects, f"{version} is stored, and its manifest {name} is not there"
        content = self._objects[name]
        assert xxh3_128_hexdigest(content) == digest, f"{version} is stored, and its manifest {name} is another one"
        manifest = json.loads(content)
        found = manifest["version"]
        assert (found["version"], found["step"], found["checkpoint_id"]) == version, f"{name} is of {found}"
        needed = {name: digest}
        assert {int(worker) for worker in manifest["chains"]} == owners.keys(), (
            f"{name} has not the owners of {version}"
        )
        for worker, text in manifest["chains"].items():
            packs = json.loads(text)["packs"]
            records: Records = {}
            for pack in packs:
                needed[pack["name"]] = pack["digest"]
                assert pack["name"] in self._objects, f"{version} is stored, and {pack['name']} is not there"
                _apply(self._objects[pack["name"]], pack["digest"], records)
            self.seen["deltas stored"] += packs[-1]["kind"] == "delta"
            expected = self.contents[manifest["databases"][worker], version]
            assert records == expected, f"worker {worker}: {version} is stored as {records}, and it is {expected}"
        return needed

    def kept(self, name: str) -> None:
        """An object has changed or gone: is it needed?"""
        for who, needed in self._needed.items():
            if name in needed:
                found = self._objects.get(name)
                assert found is not None, f"{name} is deleted, and {who or 'the stored version'} needs it"
                is_same = xxh3_128_hexdigest(found) == needed[name]
                assert is_same, f"{name} is replaced, and {who or 'the stored version'} needs it"

    def keep(self, backup: str, name: str, digest: str, version: Version) -> None:
        """A backup was made. `name`, `digest`: of the manifest that it is of; `version`: the one that was stored when it was asked for."""
        copy = f"p/backups/{backup}.json"
        assert copy in self._objects, f"the backup {backup} is made, and it is not there"
        assert xxh3_128_hexdigest(self._objects[copy]) == digest, f"the backup {backup} is not of {name}"
        needed = self._checked(copy, digest, version, self.completed[version])
        self._needed[backup] = needed
        self.seen["backups"] += 1

    # Lateness

    def attempt(self) -> None:
        """A run or a crew begins, and looks by itself how late the store is."""
        self._behind_since, self._steps_late = None, 0

    def opened(self, version: Version) -> None:
        """From here a crew goes on. It may be older than the last complete one."""
        self._complete = version if version[0] else None

    def looked(self, now: float, *, is_new_step: bool) -> None:
        """The run has written another record than that of a complete or stored version, so it has looked whether the store is behind.
        `is_new_step`: it is that of a step."""
        if self._complete in (None, self.stored) or self._lag_s_max is None:
            return
        if self._behind_since is None:
            self._behind_since = now
        if now > self._behind_since + self._lag_s_max and is_new_step:
            self.seen["late"] += 1
            self._steps_late += 1
            assert self._steps_late <= STEPS_LATE_MAX, "new steps, and the store is late"

    # Databases

    def has(self, database: str, version: Version, records: Records) -> None:
        """A database has a complete version."""
        known = self.contents.setdefault((database, version), records)
        assert known == records, f"{database} has {records} at {version}, and it had {known}"

    def restored(self, database: str, version: Version) -> None:
        """A database was made of what the store has, and its records are those of the version."""
        assert (database, version) in self.contents, f"{database} is restored at {version}, which it never had"
        self.seen["restored"] += 1


def _apply(content: bytes, digest: str, records: Records) -> None:
    """Applies a pack to the records before it."""
    assert xxh3_128_hexdigest(content) == digest, "an object is not the one that was written"
    (length,) = _LENGTH.unpack_from(content, _MAGIC_BYTES)
    at = _MAGIC_BYTES + _LENGTH.size + length + _CHECK_BYTES
    codec = pa.Codec("zstd")
    while True:
        mark, count, size, packed, _ = _FRAME.unpack_from(content, at)
        at += _FRAME.size + _CHECK_BYTES
        if mark == b"E":
            assert at == len(content), "something follows the end of a pack"
            return
        block: bytes = codec.decompress(content[at : at + packed], size, asbytes=True)
        at += packed
        place = 0
        for _ in range(count):
            key_bytes, stored_bytes = _RECORD.unpack_from(block, place)
            place += _RECORD.size
            key = block[place : place + key_bytes]
            stored = block[place + key_bytes : place + key_bytes + stored_bytes]
            place += key_bytes + stored_bytes
            if len(stored) == _TOMBSTONE_BYTES:
                records.pop(key, None)
            else:
                records[key] = stored
