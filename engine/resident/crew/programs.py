"""What the workers of a crew run: they adopt a program, report how large differences are, and clear what a transition leaves behind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.resident.crew.workers import Workers
from engine.resident.messages import AdoptProgram, ClearTables, MeasureDifferences, PrefetchPrograms, Size


class CrewPrograms:
    """The orders by which workers adopt programs. `readable`: the revisions whose views all workers can read. They are started with
    `revision`."""

    def __init__(self, workers: Workers, revision: int) -> None:
        self._workers = workers
        self._order: AdoptProgram | None = None
        self.readable = frozenset({revision})

    def prefetch(self, topic: str, digests: Sequence[str]) -> None:
        """The workers begin to read these documents in the background. `poll_prefetch` reports when that is over."""
        order = PrefetchPrograms(topic=topic, digests=tuple(digests))
        self._workers.roster.begin(PrefetchPrograms, dict.fromkeys(self._workers.numbers, order))

    def poll_prefetch(self) -> bool:
        """Raises the fault of a worker that had one."""
        return self._workers.poll_answers(PrefetchPrograms) is not None

    def adopt(self, order: AdoptProgram) -> None:
        """All workers run this program from the next step on. Called at a drained boundary."""
        self._workers.ask(order)
        self._order, self._workers.program = order, order.digest
        self.readable |= order.readable.keys()

    @property
    def has_adopted(self) -> bool:
        """Whether the workers run another program than they were started with."""
        return self._order is not None

    def catch_up(self, numbers: Iterable[int], step: int) -> None:
        """New workers, which stand before `step`, adopt what the others have."""
        if self._order is not None:
            order = self._order.model_copy(update={"step": step})
            self._workers.roster.ask_each(dict.fromkeys(sorted(numbers), order))

    def clear(self, numbers: Iterable[int], bytes_max: int) -> bool:
        """Removes tables of these nodes, at a drained boundary. Returns whether nothing is left on any worker."""
        order = ClearTables(numbers=tuple(sorted(numbers)), bytes_max=bytes_max)
        return all(answer.is_done for answer in self._workers.ask(order).values())

    def measure(self, numbers: Sequence[int]) -> list[Size]:
        """The sizes of the differences that these nodes hold on all workers, in order."""
        answers = self._workers.ask(MeasureDifferences(numbers=tuple(numbers))).values()
        parts = zip(*(answer.sizes for answer in answers), strict=True)
        return [Size(sum(each.come for each in part), sum(each.gone for each in part)) for part in parts]
