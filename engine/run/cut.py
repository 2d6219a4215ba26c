"""A cut: the hand-over of some slots from one worker to another, while the workers have no step.

    source: parts_of(slots), piece_of(part)  ->  destination: absorb(pieces), in one transaction  ->  source: release, in one transaction

The destination goes first, so that some worker has the state at every moment. No step runs between the two transactions, so it does no harm that
both have it for a while. Both are part of the next version of their databases, like a step: a crash before that version is complete undoes them.

What was copied before (hidden_copies.py) is not sent again: the source names the copies that are still right, and sends the rest.

A cut is told by its number. A worker remembers the number of the last cut that it has done, in the transaction that did it. So an order that
arrives twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import NamedTuple

import numpy as np

from base.arrays import Int64s
from base.slots import NO_SLOTS, SLOT_BITS, SLOTS, SlotSet
from engine.errors import StaleTask
from engine.rows.hashing import HASH_BITS, slot_of
from engine.run.hidden_copies import reveal_copies, tables_of
from engine.state import moves
from engine.state.moves import Piece, RunPart
from storage.keys import TABLE_FIRST, TABLE_MAX
from storage.pins import Pin
from storage.transaction import CutNumber, Transaction


class TablePiece(NamedTuple):
    """A piece of one table, all of whose rows are in one range of the slots that move."""

    table: int
    piece: Piece


class PartOfTable(NamedTuple):
    """What one run of a table has of some slots."""

    table: int
    part: RunPart

    @property
    def copy_key(self) -> bytes:
        """The key under which the destination keeps a copy."""
        return self.part.copy_key(self.table)


def parts_of(transaction: Transaction, slots: SlotSet) -> list[PartOfTable]:
    """The state of these slots, in parts that can be copied one by one. Raises StaleTask if the worker does not own the slots."""
    _check_owned(transaction, slots, "give away")
    return [PartOfTable(t, part) for t in tables_of(transaction) for part in moves.parts_of(transaction, t, slots)]


def pin_of(transaction: Transaction, slots: SlotSet) -> Pin:
    """The pin of all runs that these slots have now."""
    return Pin(slots, {table: moves.next_number(transaction, table) for table in tables_of(transaction)})


def make_edges(transaction: Transaction, slots: SlotSet) -> None:
    """Makes the ends of these slots edges of buckets, so that no run has rows of them and of others. When the slots leave, runs of others are
    not written again."""
    for table in tables_of(transaction):
        moves.make_edges(transaction, table, slots)


def piece_of(transaction: Transaction, table_part: PartOfTable) -> TablePiece | None:
    """The rows of a part; None if there are none. They are valid until the transaction ends."""
    piece = moves.piece_of(transaction, table_part.table, table_part.part)
    return None if piece is None else TablePiece(table_part.table, piece)


def copy_of(transaction: Transaction, table_part: PartOfTable) -> TablePiece | None:
    """Returns the rows of a part that was listed in an earlier transaction; None if there are none, and also if slots that have come meanwhile
    gave its run another number."""
    piece = moves.copy_of(transaction, table_part.table, table_part.part)
    return None if piece is None else TablePiece(table_part.table, piece)


def check_pieces(pieces: Iterable[TablePiece], slots: SlotSet) -> None:
    """Raises ValueError unless each piece has the form of state of these slots. What it holds cannot be checked."""
    for table, piece in pieces:
        if not TABLE_FIRST <= table <= TABLE_MAX:
            raise ValueError(f"table {table} holds no state of operators")
        moves.check_rows(piece.rows, slots, piece.first)


def absorb(
    transaction: Transaction,
    number: CutNumber,
    slots: SlotSet,
    pieces: Iterable[TablePiece],
    copies: Set[bytes] = frozenset(),
) -> bool:
    """Takes over the slots with their state: `pieces`, and the hidden copies under the keys `copies`. Returns False if the worker has
    done this cut already. Raises StaleTask if it owns some of the slots."""
    if transaction.get_cut() >= number:
        return False
    owned = transaction.get_owned()
    if (both := owned.intersection(slots)) != NO_SLOTS:
        raise StaleTask(f"cut {number} brings {both}, which the worker owns already; nothing was changed.")
    reveal_copies(transaction, slots, copies)
    by_table: dict[int, list[Piece]] = {}
    for table, piece in pieces:
        by_table.setdefault(table, []).append(piece)
    for table, mine in sorted(by_table.items()):
        moves.adopt_all(transaction, table, slots, mine)
    transaction.set_owned(owned.union(slots))
    transaction.set_cut(number)
    return True


def release(transaction: Transaction, number: CutNumber, slots: SlotSet) -> bool:
    """Gives the slots up, after their new owner has absorbed them. Returns False if the worker has done this cut already. Raises StaleTask if it
    does not own them all."""
    if transaction.get_cut() >= number:
        return False
    _check_owned(transaction, slots, "release")
    for table in tables_of(transaction):
        moves.drop(transaction, table, slots)
    transaction.set_owned(transaction.get_owned().minus(slots))
    transaction.set_cut(number)
    return True


def slot_bytes(transaction: Transaction) -> tuple[Int64s, Int64s]:
    """(the bytes of the state of every slot, about: each row of a run counts for the run's mean; the bytes of the runs that are written again
    if the slots below a slot move and it does not, for every slot and the end of all)."""
    sizes, crossing = np.zeros(SLOTS, np.int64), np.zeros(SLOTS + 1, np.int64)
    for table in tables_of(transaction):
        for first, hashes, run_bytes in moves.runs_of(transaction, table):
            slots = (hashes >> np.uint64(HASH_BITS - SLOT_BITS)).astype(np.intp)
            sizes += np.bincount(slots, minlength=SLOTS) * max(1, run_bytes // len(hashes))
            crossing[slot_of(first) + 1 : int(slots[-1]) + 1] += run_bytes
    return sizes, crossing


def _check_owned(transaction: Transaction, slots: SlotSet, doing: str) -> None:
    if (foreign := slots.minus(transaction.get_owned())) != NO_SLOTS:
        raise StaleTask(f"the worker was asked to {doing} {foreign}, which it does not own; nothing was changed.")
