"""Copies of slots that a worker does not own yet: they are stored where they will stay, and nobody sees them until a cut takes them over.

    source, beside its steps: parts -> pieces  ->  destination, between its steps: store_copies  ->  a cut: reveal_copies(kept)

A copy of a part of a run is stored under its final key (`RunPart.copy_key`), in slots that the worker does not own. The database has a record of
these slots, and its scans skip them (storage/transaction.py). The worker's own rows are kept under keys of other slots. So no operator, query or
cut can meet a copy too early. A cut changes that record,
removes copies of runs that the source no longer has, and writes no copy again.

The source pins its runs before it copies (storage/pins.py): merges leave them alone, so what is new lies in runs of its own, and no other run
gets the number of one that was copied. So a run that has the place and the number of a copy is that which was copied. A worker whose database is
opened again discards all copies: the change may lead somewhere else then, and the source has forgotten what it sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from base.slots import NO_SLOTS, SlotSet
from engine.errors import StaleTask
from engine.state import moves
from storage.keys import KEY_BYTES_MAX, PREFIX_BYTES, TABLE_FIRST, TABLE_MAX, key_slot, key_table
from storage.transaction import Transaction

Copy = tuple[bytes, memoryview]
"""The key under which it is stored, and its rows as an encoded run."""


def check_copies(copies: Iterable[Copy], slots: SlotSet) -> None:
    """Raises ValueError unless each copy has the form of state of these slots, under a key in one of them. What it holds cannot be checked."""
    for key, rows in copies:
        if not PREFIX_BYTES < len(key) <= KEY_BYTES_MAX or not TABLE_FIRST <= key_table(key) <= TABLE_MAX:
            raise ValueError(f"{key.hex()} is no key of a run")
        if key_slot(key) not in slots:
            raise ValueError(f"a copy lies in slot {key_slot(key)}, not in {slots}")
        moves.check_rows(rows, slots)


def store_copies(transaction: Transaction, slots: SlotSet, copies: Iterable[Copy]) -> None:
    """Stores copies of parts of these slots. Raises StaleTask if the worker owns some of them."""
    if (both := transaction.get_owned().intersection(slots)) != NO_SLOTS:
        raise StaleTask(f"copies of {both} have arrived, which the worker owns already; nothing was changed.")
    hidden = transaction.get_hidden()
    if not slots.is_within(hidden):
        # A bucket of this worker may be named after a slot of another one, and would be hidden with it.
        for table in tables_of(transaction):
            moves.make_edges(transaction, table, slots)
        transaction.set_hidden(hidden.union(slots))
    for key, rows in copies:
        transaction.put(key, rows)


def reveal_copies(transaction: Transaction, slots: SlotSet, kept: Set[bytes] = frozenset()) -> None:
    """Shows the copies of these slots whose keys are `kept`, and removes the others. Raises StaleTask if one that is to be kept is missing."""
    hidden = transaction.get_hidden()
    found = set(transaction.hidden_keys(hidden.intersection(slots)))
    if not kept <= found:
        raise StaleTask(f"{len(kept - found)} copies of {slots} are missing; nothing was changed.")
    # While the copies are hidden: a bucket of this worker that reaches into the slots ends before them from now on.
    for table in sorted({key_table(key) for key in kept}):
        moves.make_edges(transaction, table, slots)
    for key in found - kept:
        transaction.delete(key)
    if hidden != NO_SLOTS:
        transaction.set_hidden(hidden.minus(slots))


def discard_copies(transaction: Transaction) -> None:
    """Removes all copies."""
    reveal_copies(transaction, transaction.get_hidden())


def tables_of(transaction: Transaction) -> list[int]:
    """The tables that hold state of operators, ascending."""
    return sorted({table for key in transaction.keys(b"") if (table := key_table(key)) >= TABLE_FIRST})
