"""Removes the tables of nodes that no revision has any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from engine.model.numbers import NUMBERS_WITH_STATE, TRACES_MAX, table_of
from engine.state.store import Store
from storage.keys import table_prefix


def clear_tables(store: Store, numbers: Iterable[int], bytes_max: int | None = None) -> bool:
    """Removes the tables of the nodes with these numbers, of which those without state have none. Returns whether nothing is left. `bytes_max`:
    it stops behind the record with which so many bytes are removed; None: it removes everything."""
    removed = 0
    for key in list(_keys(store, numbers)):
        if bytes_max is not None and removed >= bytes_max:
            return False
        value = store.get(key)
        removed += len(key) + (0 if value is None else len(value))
        store.delete(key)
    return True


def _keys(store: Store, numbers: Iterable[int]) -> Iterator[bytes]:
    for number in sorted(numbers):
        if number < NUMBERS_WITH_STATE:
            first = table_of(number)
            for table in range(first, first + TRACES_MAX):
                yield from store.keys(table_prefix(table))
