"""What a worker does in a cut: it gives slots with their state to a peer, or takes them over, or releases what it gave.

    coordinator -> destination: TakeSlots        coordinator -> source: GiveSlots(slots, bytes_max)
    source -> destination: Pieces ..., the last of them with the slots that were chosen
    destination: absorbs them in one transaction -> Taken        source -> Given        coordinator -> source: ReleaseSlots

engine/run/cut.py has the transactions. The source chooses how many of the slots are moved, because it can estimate their bytes
(slot_weights.py): a cut takes the first slots that are within its bound. Of slots that were copied (copies.py) it sends only what is new since.
"""

from __future__ import annotations

from collections.abc import Iterator

from base.slots import SlotSet
from engine.errors import TaskLost
from engine.resident.copies import FRAME_BYTES_MIN, SlotCopier
from engine.resident.mesh import Mesh
from engine.resident.messages import Given, GiveSlots, Pieces, ReleaseSlots, Taken, TakeSlots
from engine.resident.slot_weights import SlotWeights
from engine.run.cut import TablePiece, absorb, check_pieces, parts_of, piece_of, release
from engine.state.moves import Piece
from faults.points import reached
from storage.database import Database


class SlotMover:
    """The cuts of one worker."""

    def __init__(self, mesh: Mesh, worker: int, weights: SlotWeights, copier: SlotCopier) -> None:
        self._mesh, self._worker, self._weights, self._copier = mesh, worker, weights, copier

    def give(self, order: GiveSlots, database: Database) -> Given:
        """Sends the state of as many of the slots as the order allows."""
        slots = self._weights.first_within(order.slots, order.bytes_max)
        moved = 0
        with database.read() as state:
            copied, left = self._copier.divide_parts(order.to, slots, parts_of(state, slots))
            pieces = (piece_of(state, part) for part in left)
            for places, buffers in _batches(piece for piece in pieces if piece is not None):
                moved += sum(len(buffer) for buffer in buffers)
                self._mesh.send(order.to, Pieces(number=order.number, places=places, slots=None), buffers)
        copies = tuple(part.copy_key.hex() for part in copied)
        self._mesh.send(order.to, Pieces(number=order.number, places=(), slots=slots, copies=copies), ())
        reached("cut.exported", self._worker)
        return Given(slots=slots, moved_bytes=moved)

    def take(self, order: TakeSlots, database: Database) -> Taken:
        """Waits for the slots and takes them over, in one transaction."""
        pieces: list[TablePiece] = []
        slots: SlotSet | None = None
        while slots is None:
            message, buffers = self._mesh.pieces_of(order.giver)
            if message.number != order.number or len(buffers) != len(message.places):
                raise TaskLost(
                    f"worker {order.giver} has sent pieces of cut {message.number} during cut {order.number}"
                )
            for (table, first), rows in zip(message.places, buffers, strict=True):
                pieces.append(TablePiece(table, Piece(first, memoryview(rows))))
            slots = message.slots
        try:
            check_pieces(pieces, slots)
            copies = {bytes.fromhex(key) for key in message.copies}
        except ValueError as fault:
            raise TaskLost(f"worker {order.giver} has sent in cut {order.number} what is no state: {fault}") from None
        with database.transaction() as transaction:
            absorb(transaction, order.number, slots, pieces, copies)
            reached("absorb.inside", self._worker)
        reached("absorb.done", self._worker)
        return Taken(slots=slots)

    def release(self, order: ReleaseSlots, database: Database) -> None:
        """Gives up what a peer has taken over, in one transaction."""
        with database.transaction() as transaction:
            release(transaction, order.number, order.slots)
            reached("release.inside", self._worker)
        self._weights.forget(order.slots)
        self._copier.forget(order.slots, database)
        reached("release.done", self._worker)


def _batches(pieces: Iterator[TablePiece]) -> Iterator[tuple[tuple[tuple[int, int], ...], list[memoryview]]]:
    """Pieces in groups of about FRAME_BYTES_MIN: their places, and their rows."""
    places: list[tuple[int, int]] = []
    buffers: list[memoryview] = []
    size = 0
    for table, piece in pieces:
        places.append((table, piece.first))
        buffers.append(piece.rows)
        size += len(piece.rows)
        if size >= FRAME_BYTES_MIN:
            yield tuple(places), buffers
            places, buffers, size = [], [], 0
    if places:
        yield tuple(places), buffers
