"""The protocol ICADD with one rule of the source document in place of the corrected one, or broken in one place. The docstring of `icadd.py` has
the schedules.

The first three are the document's rules I1 to I3. The next ones are half corrected: each leaves out one part that proved necessary. The
operators break what must hold behind several lanes."""

from __future__ import annotations

from protocols.icadd import Collection, Phase, Region
from protocols.icadd_messages import (
    Acquire,
    Answer,
    Dropped,
    KeysOf,
    Lane,
    Reassignment,
    RegionInstruction,
    Routed,
    Worker,
)
from protocols.icadd_operator import Operator


class WithoutEcho(Region):
    """I1: when all old workers have said Done, records make no detour any more, though some are still on theirs."""

    def _awaits_echo(self, old: Worker) -> bool:
        return False

    def _advance(self) -> None:
        super()._advance()
        if self.reassignment is not None and self.finished >= self.reassignment.old:
            self.closed |= self.reassignment.old
            super()._advance()


class WithoutListing(Region):
    """I2: a record of a higher version is passed down, and its key is not listed."""

    def _list(self, routed: Routed) -> None:
        if routed.version <= self.version:
            super()._list(routed)


class WithoutMarker(Region):
    """I3: a detoured record is processed or returned at once."""

    def _awaits_marker(self, routed: Routed, sender: Worker | None) -> bool:
        return False


class OnlyReturnsWait(Region):
    """A detoured record waits for its marker only if it would be returned. If its key is here, it is processed at once."""

    def _awaits_marker(self, routed: Routed, sender: Worker | None) -> bool:
        key = routed.record.key
        is_here = self.phase in (Phase.SETTLED, Phase.INTERROGATE) or key in self.whitelist or key in self.hold
        return not is_here and super()._awaits_marker(routed, sender)


class DoneBeforeMarkers(Region):
    """Done waits for no marker, though detoured records do. Only the end of the change waits for them all."""

    def _has_all_markers(self, change: Reassignment) -> bool:
        return not self.early

    def _settle(self, change: Reassignment) -> None:
        if self.markers >= change.members:
            super()._settle(change)

    def check(self) -> None:
        """Records may wait for a marker after Done."""


class TakesFromAnybody(Region):
    """The document's version rule: whatever has a higher version is taken, even if the key's state is on a third worker."""

    def _must_take(self, routed: Routed, sender: Worker | None) -> bool:
        return routed.version > self.version


class ForwardsWithItsOwnVersion(Region):
    """A worker that still routes by F puts its own version on what it forwards."""

    def _forward(self, to: Worker, routed: Routed) -> None:
        super()._forward(to, Routed(routed.record, self.version))


class AsksOneLane(Region):
    """Interrogation ends with the first answer, and the keys of the others are not listed."""

    def answered(self, answer: Answer) -> list[RegionInstruction]:
        if isinstance(answer, KeysOf):
            if answer.lane not in self.unanswered:
                return []
            self.unanswered = {answer.lane}
        return super().answered(answer)


class FirstStateStays(Collection):
    def add_state(self, lane: Lane, state: object | None) -> None:
        had = dict(self.states)
        super().add_state(lane, state)
        self.states.update(had)


class DoesNotOverwrite(Region):
    """The first state that an operator tells is sent, though it has processed records of other lanes since."""

    def _collection(self) -> Collection:
        return FirstStateStays(set(self.lanes))


class DoneBeforeDrops(Region):
    """Done does not wait until the operators have dropped what was sent away."""

    def _has_given_all(self) -> bool:
        return not self.whitelist and not self.hold

    def _settle(self, change: Reassignment) -> None:
        self.undropped.clear()
        super()._settle(change)

    def answered(self, answer: Answer) -> list[RegionInstruction]:
        is_late = isinstance(answer, Dropped) and answer.key not in self.undropped
        return [] if is_late else super().answered(answer)


class TakesOnEveryLane(Operator):
    """Each lane's Take gives the state again, over the records that were processed since the first."""

    def take(self, acquired: Acquire) -> object | None:
        super().take(acquired)
        self.keys.pop(acquired.key, None)
        return dict(acquired.states).get(self.operator)
