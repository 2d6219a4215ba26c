"""What a worker knows of the bytes of its slots, and which slots go together: in a cut, and in a portion that is copied.

The bytes are counted once, before slots move. They change while steps go on, so whatever follows from them is about so large.
"""

from __future__ import annotations

import numpy as np

from base.arrays import Int64s
from base.slots import SLOTS, SlotSet
from engine.run.cut import slot_bytes
from storage.database import Database

PORTION_LEAST, PORTION_MOST = 0.5, 4.0
"""The least and the most that a portion may have, as parts of the bytes that it is to have. Between these it ends where a bucket does, if there
is such a place: the buckets of a state of 100 million keys have some 80 MB. A wider choice would make portions uneven."""


class SlotWeights:
    """The bytes of the slots of one worker."""

    def __init__(self) -> None:
        self._bytes = np.zeros(SLOTS, np.int64)
        self._crossing = np.zeros(SLOTS + 1, np.int64)

    def count(self, database: Database, slots: SlotSet) -> int:
        """Counts the bytes of each slot. Returns the sum over `slots`. It may run beside the steps."""
        with database.read() as state:
            self._bytes, self._crossing = slot_bytes(state)
        return int(self._bytes[_numbers(slots)].sum())

    def forget(self, slots: SlotSet) -> None:
        """These slots have left."""
        self._bytes[_numbers(slots)] = 0

    def first_within(self, slots: SlotSet, bytes_max: int) -> SlotSet:
        """The first slots that have `bytes_max` together, and at least one."""
        within = int(np.searchsorted(np.cumsum(self._bytes[_numbers(slots)]), bytes_max, side="right"))
        return slots if within >= len(slots) else slots.first(max(1, within))

    def portion(self, slots: SlotSet, bytes_wanted: int) -> SlotSet:
        """The first slots that have about `bytes_wanted` together, and at least one. They end where the fewest bytes are too few or too many, or
        have to be written again because their bucket reaches over the end."""
        numbers = _numbers(slots)
        sums = np.cumsum(self._bytes[numbers])
        least, most = (int(np.searchsorted(sums, f * bytes_wanted, "right")) for f in (PORTION_LEAST, PORTION_MOST))
        counts = np.arange(max(1, least), max(1, most) + 1)  # so many slots the portion may have
        # The last end has to be made in any case.
        crossing = self._crossing[numbers[counts - 1] + 1] * (counts < len(numbers))
        return slots.first(int(counts[np.argmin(crossing + np.abs(sums[counts - 1] - bytes_wanted))]))


def _numbers(slots: SlotSet) -> Int64s:
    return np.fromiter(slots, np.int64, len(slots))
