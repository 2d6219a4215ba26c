"""Slots go from one worker to another: copies of their state in the background, and the cuts that move them (copies.py, slots.py)."""

from __future__ import annotations

from base.slots import SlotSet
from engine.model.placement import Placement
from engine.resident.messages.life import WireFault
from engine.resident.messages.message import Answer, BackgroundOrder, Notice, Order, PeerMessage
from storage.transaction import CutNumber


class UsePlacement(Notice):
    """The placement from now on. The notice has no answer, because each step names the placement that it has."""

    placement: Placement


class SlotBytesEstimated(Answer):
    """The worker has estimated the bytes of its slots. `total_bytes`: of the slots that the order names."""

    total_bytes: int


class EstimateSlotBytes(BackgroundOrder[SlotBytesEstimated]):
    """Estimates the bytes of each slot in the background. The answer has the sum over `slots`."""

    slots: SlotSet


class SlotsCopied(Answer):
    """The other worker has so many bytes more of a portion, which has these slots. `is_done`: whether it has all of it that was pinned."""

    slots: SlotSet
    moved_bytes: int
    is_done: bool


class CopySlots(BackgroundOrder[SlotsCopied]):
    """Copies of a portion go to worker `to` in the background: `bytes_max` more, about, and at least one run. If all portions before it are
    done, a new one begins, with the first of these slots that have about `bytes_wanted` together, and at least one; its runs are pinned then."""

    slots: SlotSet
    to: int
    bytes_wanted: int
    bytes_max: int


class CopiesDiscarded(Answer):
    """The worker has no copies any more."""


class DiscardCopies(Order[CopiesDiscarded]):
    """Discards the copies that the worker has taken, and forgets those that it has sent."""


class Given(Answer):
    """The slots whose state was sent, and its bytes."""

    slots: SlotSet
    moved_bytes: int


class GiveSlots(Order[Given]):
    """Sends the state of some of these slots to worker `to`: of the first ones that have `bytes_max` together, and at least of one. The sender's
    state stays as it is."""

    number: CutNumber
    slots: SlotSet
    to: int
    bytes_max: int


class Taken(Answer):
    """The slots that were taken over."""

    slots: SlotSet


class TakeSlots(Order[Taken]):
    """Takes over the slots that worker `giver` sends, with their state."""

    number: CutNumber
    giver: int


class Released(Answer):
    """The worker has given the slots up."""


class ReleaseSlots(Order[Released]):
    """Gives up slots that another worker has taken over."""

    number: CutNumber
    slots: SlotSet


class Pieces(PeerMessage):
    """A part of the state that one cut moves. `places`: the table of each piece, and the first hash of its bucket; the frame's buffers are their
    rows. `slots`: set in the last frame of the cut, and only there. `copies`: in that frame, the keys of the copies that are part of the
    state, in hexadecimal digits."""

    number: CutNumber
    places: tuple[tuple[int, int], ...]
    slots: SlotSet | None
    copies: tuple[str, ...] = ()


class Copies(PeerMessage):
    """Copies of parts of the state of these slots. `keys`: under which they are stored, in hexadecimal digits; the frame's buffers are their
    rows. `is_last`: whether they are the last ones of an order, which the receiver answers."""

    slots: SlotSet
    keys: tuple[str, ...]
    is_last: bool


class CopyReceived(PeerMessage):
    """The sender has stored the copies of one order, or reports why it could not."""

    fault: WireFault | None
