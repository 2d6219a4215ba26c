"""The manifest of a stored version: one object that says where the state of each owner is. The step log names it with its digest.

    ROOT/PIPELINE/LOG/GENERATION/packs/WORKER-bBIRTH/VERSION-CHECKPOINT-TERM-uN...  what workers upload (storage/remote/chain.py)
    ROOT/PIPELINE/LOG/GENERATION/manifests/VERSION-CHECKPOINT-TERM-uN.json          a manifest
    ROOT/PIPELINE/backups/NAME.json                                                a manifest that a backup keeps

LOG is the topic id of the step log, so a pipeline whose step log was lost and made again finds nothing of the old one. No name is ever used
twice, because it has the term of the run. So no write can replace what another run has written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pydantic import ValidationError
from xxhash import xxh3_128_hexdigest

from base.term import Term
from base.version import VersionId
from io_kafka.step_log.form import Natural, Part
from io_kafka.step_log.layout_records import Ownership
from storage.identity import Identity
from storage.remote.chain import Chain
from storage.remote.errors import StoreFault
from storage.remote.objects_protocol import ObjectStore

MANIFEST_FORMAT = 1

MANIFEST_BYTES_MAX = 256 << 20
"""A thousand workers with a thousand objects each take some 200 MB. What is larger is no manifest."""


_BACKUP = re.compile(r"[^/]+/backups/([A-Za-z0-9][A-Za-z0-9_.-]{0,99})\.json", re.ASCII)

_OF_KAFKAS_TOOLS = str.maketrans("/+", "_-")


class DamagedManifest(StoreFault):
    """`name`: of its object."""

    def __init__(self, name: str, reason: str) -> None:
        backup = backup_name(name)
        super().__init__(
            f"The manifest {name} of the checkpoint store {reason}.",
            "It was changed by something other than Stepwell. `stepwell backup list` shows other versions; `stepwell run --full-refresh` "
            "rebuilds the state from the input."
            if backup is None
            else "It was changed by something other than Stepwell, and nobody knows which objects it keeps. Put it back, or "
            f"`stepwell backup delete {backup}`: until then no object of the pipeline is deleted.",
        )


class Manifest(Part):
    """`chains`: by worker, in the form of storage/remote/chain.py as JSON. `databases`: the uuid of the database of each worker."""

    format: Natural
    pipeline: str
    log_id: str
    generation: Natural
    version: VersionId
    placed: Ownership
    databases: dict[int, str]
    chains: dict[int, str]

    def identity(self, worker: int) -> Identity:
        return Identity(self.pipeline, worker, self.databases[worker])


def root_of(pipeline: str, log_id: str, generation: int) -> str:
    """The folder of one generation of a pipeline."""
    return f"{log_root_of(pipeline, log_id)}/{generation}"


def log_root_of(pipeline: str, log_id: str) -> str:
    """The folder of all generations under one step log. The client of Kafka writes a topic id with '/' and '+', where Kafka's own tools have '_'
    and '-'. A name of an object may not begin with '/' or have two of them."""
    return f"{pipeline}/{log_id.translate(_OF_KAFKAS_TOOLS)}"


def backups_of(pipeline: str) -> str:
    return f"{pipeline}/backups"


def backup_name(name: str) -> str | None:
    """Returns the name of the backup whose manifest the object of this name is; None if it is no backup's."""
    found = _BACKUP.fullmatch(name)
    return None if found is None else found[1]


def backup_objects(store: ObjectStore, pipeline: str) -> list[str]:
    """The names of the manifests of all backups. What has another name was put there by somebody else. Raises StoreFault."""
    return [found.name for found in store.list(backups_of(pipeline)) if backup_name(found.name) is not None]


@dataclass(frozen=True)
class UploadName:
    """What the names of all objects of one upload have in common. `attempt` counts the uploads of a run: a late write of one that was given up
    must not replace an object of the next one."""

    version: VersionId
    term: Term
    attempt: int

    def __str__(self) -> str:
        return f"{self.version.version:08d}-{self.version.checkpoint_id}-{self.term}-u{self.attempt}"


def prefix_of(root: str, worker: int, birth: str, name: UploadName) -> str:
    """Returns the prefix of the names of the objects that a worker uploads for a version."""
    return f"{root}/packs/{worker:04d}-b{birth}/{name}"


def manifest_name(root: str, name: UploadName) -> str:
    return f"{root}/manifests/{name}.json"


def write_manifest(store: ObjectStore, name: str, manifest: Manifest) -> str:
    """Returns the digest of the object. Raises StoreFault."""
    content = manifest.model_dump_json().encode()
    return store.write(name, [content]).digest


def read_manifest(store: ObjectStore, name: str, digest: str | None) -> Manifest:
    """`digest`: that which the step log has; None for a backup, of which it says nothing. Raises DamagedManifest and other StoreFaults."""
    content = _content(store, name)
    if digest is not None and xxh3_128_hexdigest(content) != digest:
        raise DamagedManifest(name, "is not the one that the step log names: its content differs")
    return _parse(name, content, of_log=digest is not None)


def read_with_digest(store: ObjectStore, name: str) -> tuple[Manifest, str]:
    """(the manifest, the digest of its object), for one that the step log is to name. Raises DamagedManifest and other StoreFaults."""
    content = _content(store, name)
    return _parse(name, content, of_log=False), xxh3_128_hexdigest(content)


def _content(store: ObjectStore, name: str) -> bytes:
    content = bytearray()
    for piece in store.read(name):
        content += piece
        if len(content) > MANIFEST_BYTES_MAX:
            raise DamagedManifest(name, f"has more than {MANIFEST_BYTES_MAX >> 20} MB")
    return bytes(content)


def _parse(name: str, content: bytes, *, of_log: bool) -> Manifest:
    """`of_log`: whether the content is known to be what a run has written, so that its parts need no look."""
    try:
        manifest = Manifest.model_validate_json(content)
        if not of_log:
            for text in manifest.chains.values():
                Chain.of_json(text)
    except ValidationError as fault:
        raise DamagedManifest(name, f"cannot be read: {fault.errors(include_url=False)[0]['msg']}") from fault
    if manifest.format != MANIFEST_FORMAT:
        raise DamagedManifest(name, f"has format {manifest.format}, and this release reads format {MANIFEST_FORMAT}")
    if not manifest.placed.owners.keys() <= manifest.chains.keys() & manifest.databases.keys():
        raise DamagedManifest(name, "does not have the state of all workers that own slots in it")
    return manifest
