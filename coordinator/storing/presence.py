"""Whether the objects of a version are in the store, as far as a list of it tells: they are there, and have the size that they had.

What is in them is verified when it is read (storage/remote/restoring.py). A list costs one request, whatever the size of the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from coordinator.storing.manifest import Manifest, read_manifest, root_of
from io_kafka.step_log.records import CheckpointStored
from storage.remote.chain import Chain, Pack
from storage.remote.errors import DamagedPack, ObjectMissing, StoreFault
from storage.remote.objects_protocol import ObjectStore


@dataclass(frozen=True)
class Lost:
    """An object that cannot be used. `bytes`: that it had. `found_bytes`: that it has now; None if it is missing."""

    name: str
    bytes: int
    found_bytes: int | None

    def fault(self, store: ObjectStore) -> StoreFault:
        """ObjectMissing or DamagedPack."""
        if self.found_bytes is None:
            return ObjectMissing(store.root, self.name)
        return DamagedPack(self.name, f"it has {self.found_bytes:,} bytes, and had {self.bytes:,} when it was stored")


def packs_in(manifest: Manifest) -> Iterator[Pack]:
    """All objects with the state of a version."""
    for text in manifest.chains.values():
        yield from Chain.of_json(text).packs


def lost_of(manifest: Manifest, sizes: Mapping[str, int]) -> list[Lost]:
    """The objects of the version that cannot be used, by name. `sizes`: in bytes, of all objects that are there, by name."""
    expected = {pack.name: pack.bytes for pack in packs_in(manifest)}
    return [Lost(name, size, sizes.get(name)) for name, size in sorted(expected.items()) if sizes.get(name) != size]


def lost_of_each(store: ObjectStore, manifests: Sequence[Manifest]) -> list[list[Lost]]:
    """Returns what `lost_of` returns, for each of several versions. Most of these are of one generation, so each generation is listed once.
    Raises StoreFault."""
    roots = {root_of(each.pipeline, each.log_id, each.generation) for each in manifests}
    sizes = {name: size for root in sorted(roots) for name, size in sizes_below(store, root).items()}
    return [lost_of(each, sizes) for each in manifests]


def check_objects(store: ObjectStore, manifest: Manifest) -> None:
    """Raises ObjectMissing or DamagedPack if an object of the version cannot be used, and other StoreFaults."""
    for lost in lost_of_each(store, [manifest])[0]:
        raise lost.fault(store)


def read_whole(store: ObjectStore, stored: CheckpointStored) -> Manifest:
    """The manifest that the step log names, of a version whose objects are all there. Raises DamagedManifest, what `check_objects` raises, and
    other StoreFaults."""
    manifest = read_manifest(store, stored.manifest, stored.digest)
    check_objects(store, manifest)
    return manifest


def sizes_below(store: ObjectStore, folder: str) -> dict[str, int]:
    """In bytes, of all objects below the folder, by name. Raises StoreFault."""
    return {found.name: found.bytes for found in store.list(folder)}
