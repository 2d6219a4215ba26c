"""Decides when circuit.json (coordinator/starting/workers/circuit_file.py) is written again."""

from __future__ import annotations

from coordinator.specification import PipelineSpec
from coordinator.starting.topics.setup import write_owner
from coordinator.transition.course import Course
from io_kafka.step_log.state import StepLogState


class CircuitJson:
    """Keeps circuit.json as the step log has it: the databases of the layout, and the circuit whose views the last checkpoint has."""

    def __init__(self, files: PipelineSpec, course: Course) -> None:
        self._files, self._course = files, course
        self._written: tuple[int, int, int | None] | None = None
        """The layout, the revision and `until` of what was written last."""

    def keep(self, log: StepLogState) -> None:
        """Called at every boundary, so the file is written before workers leave."""
        last = max((version.step for version in log.checkpoints), default=0)
        course, revision, in_force = self._course, self._course.revision_at(last), log.revision
        is_of_another = in_force is not None and in_force.number != revision
        until = in_force.step if in_force is not None and is_of_another else None
        if log.layout is not None and (log.layout.number, revision, until) != self._written:
            marks, made_with = course.marks_of(revision), course.made_with_of(revision)
            write_owner(self._files, course.answers_of(revision), log, until, marks=marks, made_with=made_with)
            self._written = (log.layout.number, revision, until)
