"""From a request to apply a project to a transition that can be recorded, without holding the steps.

    asked -> planned, in a thread (prepared_request.py) -> documents written -> workers have read them, beside the steps -> wanted (machine.py)

Each part is carried out between two steps or beside them, so that the boundary at which the transition is recorded waits for nothing but its
record. The documents are in a transaction of their own before that record. If none follows, nobody ever reads them.
"""

from __future__ import annotations

from collections.abc import Callable

from base.fault import Fault
from coordinator.background_work import BackgroundWork
from coordinator.revisions.requests import ApplyRequest, stopping
from coordinator.transition.machine import AnyTransition
from coordinator.transition.prepared_request import Prepared
from engine.resident.crew import Crew
from faults.points import reached
from io_kafka.clients.writer import PipelineWriter
from io_kafka.outside import Outside

Answer = Callable[[Exception | None], None]
"""Tells whoever has asked whether the request is accepted: None, or why not."""


class Preparation:
    """The preparation of one request. It outlives a recovery. `answer` is called once. Without one, a refusal is raised where it is noticed."""

    def __init__(
        self,
        request: ApplyRequest,
        answer: Answer | None,
        work: Callable[[], Prepared],
        outside: Outside,
        wake: Callable[[], None],
    ) -> None:
        self.request = request
        self._answer, self._is_asked = answer, answer is not None
        self._planning = BackgroundWork(outside, "plan a transition", work, wake)
        self.prepared: Prepared | None = None
        self._is_prefetching = False

    @property
    def acts_in_background(self) -> bool:
        return not self._planning.is_over

    def recovered(self) -> None:
        """New workers have read nothing."""
        self._is_prefetching = False

    def advance(self, writer: PipelineWriter, topic: str, crew: Crew, machine: AnyTransition) -> None:
        """Goes on as far as nothing has to be waited for, and tells the machine when the transition is wanted, or refused. `topic`: of plan
        documents. Raises what is no reason to refuse it."""
        if self.prepared is None:
            if not self._planning.is_over:
                return
            try:
                self.prepared = self._planning.result()
            except Fault as fault:
                self._tell(fault)
                machine.refused()
                return
            writer.append_plans(topic, self.prepared.plan.texts)
            reached("plan.written")
        if not self._is_prefetching:
            crew.programs.prefetch(topic, self.prepared.plan.program_names)
            self._is_prefetching = True
        if crew.programs.poll_prefetch():
            machine.prepared(self.prepared)

    def accept(self) -> None:
        """Tells whoever has asked, once everybody can see that it is being prepared."""
        self._tell(None)

    def end(self) -> None:
        """The run ends."""
        if self._answer is not None:
            self._tell(stopping())

    def _tell(self, fault: Exception | None) -> None:
        if self._answer is not None:
            self._answer(fault)
            self._answer = None
        elif not self._is_asked and fault is not None:
            raise fault
