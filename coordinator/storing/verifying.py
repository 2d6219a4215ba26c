"""Whether the objects of versions still have what was stored: each is read to its end and compared with its digests.

presence.py asks the store for names and sizes alone, at the cost of one request. This costs a download of everything, and nothing is written. It
does not prove that the packs of a version add up to its records. A restore proves that (storage/remote/restoring.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from coordinator.storing.manifest import Manifest
from storage.remote.chain import Chain, Pack, headers_of
from storage.remote.errors import ObjectMissing, PackError, StoreFault
from storage.remote.objects_protocol import ObjectStore
from storage.remote.pack import PackHeader
from storage.remote.restoring import records_of


@dataclass
class Verifying:
    """The objects of a store that were read so far, each once however many versions need it. `object_faults`: by name; None for those that
    are whole. `read_bytes`: as they are stored."""

    store: ObjectStore
    object_faults: dict[str, StoreFault | None] = field(default_factory=dict)
    read_bytes: int = 0

    def verify(self, manifest: Manifest) -> list[StoreFault]:
        """Returns what is wrong with the objects of a version, in the order of workers and packs; nothing if all are whole. Raises faults of
        the store that say nothing of an object."""
        faults: list[StoreFault] = []
        for packed, header in _packs_of(manifest):
            if packed.name not in self.object_faults:
                self.object_faults[packed.name] = self._read(packed, header)
            if (fault := self.object_faults[packed.name]) is not None:
                faults.append(fault)
        return faults

    def _read(self, packed: Pack, header: PackHeader) -> StoreFault | None:
        try:
            for _ in records_of(self.store, packed, header):
                pass
        except (ObjectMissing, PackError) as fault:
            return fault
        self.read_bytes += packed.bytes
        return None


def _packs_of(manifest: Manifest) -> Sequence[tuple[Pack, PackHeader]]:
    """All objects with the state of a version, with the headers that they have."""
    return [
        found
        for worker, text in sorted(manifest.chains.items())
        for found in headers_of(Chain.of_json(text), manifest.identity(worker))
    ]
