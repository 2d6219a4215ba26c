"""The check of the checkpoint store: whether this host can write, read, list and delete there.

Workers on other hosts may have other credentials, which are not looked at.
"""

from __future__ import annotations

from stepwell.doctor.check import Check
from storage.remote.errors import BadStoreUri, StoreFull, StoreUnreachable
from storage.remote.objects import open_store
from storage.remote.rights import RIGHTS, check_rights


def store_checks(uri: str | None) -> list[Check]:
    """One check; none without a store."""
    if uri is None:
        return []
    store = open_store(uri)
    missing = check_rights(store)
    if not missing:
        return [Check("store", "OK", f"can {_list_text(RIGHTS)} in {store.root}")]
    first = missing[0].fault
    if isinstance(first, StoreUnreachable | BadStoreUri | StoreFull):
        return [Check("store", "FAIL", first.message, first.what_to_do)]
    rights = _list_text(tuple(each.right for each in missing))
    return [Check("store", "FAIL", f"cannot {rights} in {store.root}: {first.message}", first.what_to_do)]


def _list_text(rights: tuple[str, ...]) -> str:
    *most, last = rights
    return f"{', '.join(most)} and {last}" if most else last
