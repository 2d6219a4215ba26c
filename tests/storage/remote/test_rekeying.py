"""The copy of a pack is the same records for another database; and what is no pack that was stored has no copy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from storage.database import Database
from storage.identity import Identity
from storage.remote.chain import Chain, headers_of
from storage.remote.errors import DamagedPack, ForeignPack, ObjectMissing, StoreFault
from storage.remote.rekeying import copy_pack
from storage.remote.restoring import restore
from tests.memory_store import MemoryStore
from tests.storage.helpers import ME, committed
from tests.storage.remote.stores import MemoryStore as Store
from tests.storage.remote.test_restoring import several

TWIN = Identity("copy", ME.worker, "another/0/0/0")


def copied(store: Store, chain: Chain, into: MemoryStore | Store) -> Chain:
    packs = [
        copy_pack(store, packed, header, TWIN, (into, f"copy/{number}"))
        for number, (packed, header) in enumerate(headers_of(chain, ME))
    ]
    return chain.model_copy(update={"packs": tuple(packs)})


@pytest.mark.usefixtures("small_sizes")
def test_a_copied_chain_is_restored_under_the_identity_of_the_copy(tmp_path: Path) -> None:
    """Into another store. The source is as it was, and the copy is no database of the source."""
    store, into = Store(), MemoryStore()
    database, chains = several(tmp_path / "database", store)
    before = dict(store.objects)
    chain = copied(store, chains[-1], into)
    assert store.objects == before
    restore(into, chain, tmp_path / "copy", TWIN, epoch=0)
    facts = Database.facts(tmp_path / "copy")
    assert (facts.identity, facts.versions) == (TWIN, (chain.version,))
    assert committed(tmp_path / "copy") == committed(database.path)
    with pytest.raises(ForeignPack):
        restore(into, chain, tmp_path / "other", ME, epoch=0)


@pytest.mark.usefixtures("small_sizes")
def test_what_is_not_the_stored_pack_is_not_copied(tmp_path: Path) -> None:
    store, into = Store(), MemoryStore()
    _, chains = several(tmp_path / "database", store)
    packed, header = next(iter(headers_of(chains[-1], ME)))
    content = store.objects[packed.name]
    flipped = bytes([content[-1] ^ 1])
    cases: list[tuple[bytes | None, type[StoreFault]]] = [
        (content[:-1] + flipped, DamagedPack),
        (content[:60] + bytes([content[60] ^ 1]) + content[61:], DamagedPack),
        (content + b"x", DamagedPack),
        (content[:-1], DamagedPack),
        (content[:9], DamagedPack),
        (b"", DamagedPack),
        (store.objects[chains[-1].packs[-1].name], ForeignPack),
        (None, ObjectMissing),
    ]
    for changed, fault in cases:
        del store.objects[packed.name]
        if changed is not None:
            store.objects[packed.name] = changed
        with pytest.raises(fault):
            copy_pack(store, packed, header, TWIN, (into, "copy"))
        assert not into.objects
        store.objects[packed.name] = content
    with pytest.raises(ForeignPack):
        copy_pack(store, packed, replace(header, identity=TWIN), TWIN, (into, "copy"))
    assert copy_pack(store, packed, header, TWIN, (into, "copy")).raw_bytes == packed.raw_bytes
