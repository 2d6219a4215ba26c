"""Lets the sources of a rescale copy slots to the destinations, round by round, beside the steps.

    idle --goes_on--> a round is under way --all sources have answered--> the next round ... --everything is copied--> done
    any of them --end--> discarded, as soon as no round is under way --> idle

In a round each source copies to one destination. A source with several destinations goes from one to the next.
"""

from __future__ import annotations

from coordinator.rescale.ways import Ways
from engine.resident.crew import Crew

COPY_BYTES = 32 << 20
"""Of one source in one round. The destination holds them in memory, and a round takes at least as long as one action of the loop."""


class Copying:
    """Of one run. `is_done`: whether all that was to be copied has been."""

    def __init__(self) -> None:
        self._left: dict[int, list[int]] = {}  # by source: the destinations that have not got everything
        self._round: dict[int, int] = {}  # by source: the destination
        self._has_begun = self._is_over = False

    def reset(self) -> None:
        """Other workers go on, which have no copies."""
        self._left, self._round, self._has_begun, self._is_over = {}, {}, False, False

    @property
    def has_begun(self) -> bool:
        """Whether workers have copies, or make some."""
        return self._has_begun

    @property
    def is_done(self) -> bool:
        return self._has_begun and not self._left and not self._is_over

    def advance(self, crew: Crew, ways: Ways) -> int:
        """Begins a round, or takes the answers to the one under way. Returns how many bytes were copied. Raises TaskLost, and the fault of
        a worker."""
        assert not self._is_over, "copies are to be discarded"
        if not self._has_begun:
            self._has_begun = True
            for source, destination in sorted(ways):
                self._left.setdefault(source, []).append(destination)
        if not self._round:
            self._begin_round(crew, ways)
            return 0
        answers = crew.slots.poll_copies()
        if answers is None:
            return 0
        for source, answer in answers.items():
            destination = self._round[source]
            if answer.is_done:
                self._left[source].remove(destination)
                if not self._left[source]:
                    del self._left[source]
        self._round = {}
        return sum(answer.moved_bytes for answer in answers.values())

    def _begin_round(self, crew: Crew, ways: Ways) -> None:
        self._round = {source: destinations[0] for source, destinations in self._left.items()}
        orders = {source: (ways[source, destination], destination) for source, destination in self._round.items()}
        if orders:
            crew.slots.begin_copying(orders, COPY_BYTES)

    def end(self) -> None:
        """The rescale is over, or leads somewhere else: what was copied and has not moved is of no use any more."""
        self._is_over = self._has_begun

    def look(self, crew: Crew) -> bool:
        """Discards the copies if they are of no use. Returns False as long as a round that is under way keeps it from that."""
        if not self._is_over:
            return True
        if self._round and crew.slots.poll_copies() is None:
            return False
        crew.slots.unstage()
        self.reset()
        return True
