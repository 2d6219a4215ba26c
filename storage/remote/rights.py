"""What `stepwell doctor` asks of a checkpoint store: whether it can write, read, list and delete there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from storage.remote.errors import FaultAtRoot, ObjectMissing, StoreFault
from storage.remote.objects_protocol import ObjectStore

FOLDER = "doctor"
"""Of the objects that try the rights, below the root."""

CONTENT = b"stepwell doctor has written this, to see whether it can. It may be deleted."


@dataclass(frozen=True)
class MissingRight:
    """`right`: write, read, list or delete."""

    right: str
    fault: StoreFault


def check_rights(store: ObjectStore) -> list[MissingRight]:
    """Tries all four with a small object of a unique name, which is gone then if it can be deleted. Empty if nothing is missing. Without the
    right to write nothing else is known of reading, unless it is refused too: then a missing object is asked for."""
    name = f"{FOLDER}/{uuid4().hex}"
    missing: list[MissingRight] = []

    def tried(right: str, act: Callable[[], object]) -> bool:
        try:
            act()
        except ObjectMissing:
            return True  # of an object that could not be written: the store has looked for it
        except StoreFault as fault:
            missing.append(MissingRight(right, fault))
            return False
        return True

    written = tried("write", lambda: store.write(name, [CONTENT]))
    tried("read", lambda: _read(store, name, written))
    tried("list", lambda: _list(store, name, written))
    tried("delete", lambda: store.delete([name]))
    return missing


def _read(store: ObjectStore, name: str, written: bool) -> None:
    found = b"".join(store.read(name))
    if written and found != CONTENT:
        raise FaultAtRoot(
            store.root,
            f"The checkpoint store {store.root} gives other bytes for {name} than were written.",
            "Check its disks.",
        )


def _list(store: ObjectStore, name: str, written: bool) -> None:
    if not any(each.name == name for each in store.list(FOLDER)) and written:
        raise FaultAtRoot(
            store.root,
            f"The checkpoint store {store.root} does not list {name}, which was just written.",
            "Use a store whose lists are up to date as soon as a write has returned.",
        )
