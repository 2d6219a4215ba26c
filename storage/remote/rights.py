"""What `stepwell doctor` asks of a checkpoint store: whether it can write, read, list and delete there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from storage.remote.errors import BadStoreUri, FaultAtRoot, ObjectMissing, StoreDenied, StoreFault, StoreUnreachable
from storage.remote.objects_protocol import ObjectStore

RIGHTS = ("write", "read", "list", "delete")

FOLDER = "doctor"
"""The folder of the objects with which rights are tried, below the root of the store."""

CONTENT = b"stepwell doctor has written this, to see whether it can. It may be deleted."


@dataclass(frozen=True)
class MissingRight:
    """A right that the store does not give, with the fault that says so. `right`: one of RIGHTS."""

    right: str
    fault: StoreFault


def check_rights(store: ObjectStore) -> list[MissingRight]:
    """Tries all four with a small object of a unique name, which is gone then if it can be deleted. Empty if nothing is missing.

    A store that cannot be reached, or does not exist, is tried once, and then all four are missing. Where nothing can be written, a missing
    object is asked for and deleted instead, so a refusal shows, but some servers refuse that only for an object that exists."""
    name = f"{FOLDER}/{uuid4().hex}"
    fault = _fault_of(lambda: store.write(name, [CONTENT]))
    if isinstance(fault, StoreUnreachable | BadStoreUri):
        return [MissingRight(right, fault) for right in RIGHTS]
    written = not isinstance(fault, StoreDenied) or fault.right != "write"
    faults = {
        "write": fault,
        "read": _fault_of(lambda: _read(store, name, written)),
        "list": _fault_of(lambda: _list(store, name, written)),
        "delete": _fault_of(lambda: store.delete([name])),
    }
    missing: dict[str, StoreFault] = {}
    for tried, fault in faults.items():
        if fault is not None:
            missing.setdefault(fault.right if isinstance(fault, StoreDenied) else tried, fault)
    return [MissingRight(right, missing[right]) for right in RIGHTS if right in missing]


def _fault_of(act: Callable[[], object]) -> StoreFault | None:
    try:
        act()
    except StoreFault as fault:
        return fault
    return None


def _read(store: ObjectStore, name: str, written: bool) -> None:
    try:
        found = b"".join(store.read(name))
    except ObjectMissing:
        if written:
            raise
        return
    if found != CONTENT:
        message = f"The checkpoint store {store.root} gives other bytes for {name} than were written."
        raise FaultAtRoot(store.root, message, "Do not use it before its disks are checked.")


def _list(store: ObjectStore, name: str, written: bool) -> None:
    if name not in {each.name for each in store.list(FOLDER)} and written:
        message = f"The checkpoint store {store.root} does not list {name}, which was just written."
        raise FaultAtRoot(store.root, message, "Use a store that lists an object as soon as it is written.")
