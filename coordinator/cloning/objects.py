"""The state of a copy in the checkpoint store: the packs of the version under the copy's own identity, and a manifest that names them.

Guarantees: nothing of the source is written or deleted. Every byte of the source's packs is verified while it is copied. Each name follows from
the pack that it is a copy of, and no run ever uses it, because term 0.0 is that of no run: so a copy that was broken off is made again over the
same objects, and two that are made at the same moment write the same bytes. What is left of one that nobody repeats goes with the first version
that a run of the copy stores.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from base.term import Term
from coordinator.cloning.source import CopySource
from coordinator.cloning.state import CopyPlace, ownership_of_copy
from coordinator.storing.manifest import (
    MANIFEST_FORMAT,
    Manifest,
    UploadName,
    manifest_name,
    prefix_of,
    root_of,
    write_manifest,
)
from faults.points import reached
from storage.identity import FIRST_BIRTH
from storage.remote.chain import Chain, Pack, headers_of
from storage.remote.objects_protocol import ObjectStore
from storage.remote.pack import PackHeader
from storage.remote.rekeying import copy_pack
from storage.remote.retrying_store import RetryingStore

COPY_TERM = Term(0, 0)
"""The term in the names of all objects of a copy. The copy itself claims an epoch, and uploads nothing as a run of it."""

PACKS_AT_ONCE = 4
"""A bucket gives one reader some 50 MB/s, and a host has the network for several."""

Known = dict[str, Pack]
"""The copies that this process has made, by the digests of the packs. The digest has the identity of the database and the version."""


def copy_objects(source: CopySource, place: CopyPlace, store: ObjectStore, known: Known) -> tuple[str, str]:
    """Copies the state into `store`. `known`: what was copied before, which gets what is copied now. Returns the name of the copy's manifest and
    its digest. Raises ObjectMissing if the source has stored a newer version meanwhile and has deleted this one, and other StoreFaults."""
    root = root_of(place.pipeline, place.log_id, 0)
    manifest = source.stored.manifest
    chains: dict[int, Chain] = {}
    with ThreadPoolExecutor(PACKS_AT_ONCE, "copy") as pool:
        for worker, chain in source.stored.chains.items():
            copied = partial(_copy, source, place, store, known)
            packs = tuple(pool.map(copied, headers_of(chain, manifest.identity(worker))))
            chains[worker] = chain.model_copy(update={"packs": packs})
    made = Manifest(
        format=MANIFEST_FORMAT,
        pipeline=place.pipeline,
        log_id=place.log_id,
        generation=0,
        version=manifest.version,
        placed=ownership_of_copy(source),
        databases={worker: place.identity(worker).database for worker in chains},
        chains={worker: chain.to_json() for worker, chain in chains.items()},
    )
    name = manifest_name(root, UploadName(manifest.version, COPY_TERM, 0))
    reached("clone.copied")
    digest = write_manifest(store, name, made)
    reached("clone.described")
    return name, digest


def _copy(source: CopySource, place: CopyPlace, store: ObjectStore, known: Known, one: tuple[Pack, PackHeader]) -> Pack:
    packed, header = one
    worker = header.identity.worker
    if packed.digest not in known:
        root = root_of(place.pipeline, place.log_id, 0)
        prefix = prefix_of(root, worker, FIRST_BIRTH, UploadName(packed.to, COPY_TERM, 0))
        into = store, f"{prefix}-{packed.kind}-{header.part:03d}"
        known[packed.digest] = copy_pack(
            RetryingStore(source.stored.store), packed, header, place.identity(worker), into
        )
        reached("clone.pack")
    return known[packed.digest]
