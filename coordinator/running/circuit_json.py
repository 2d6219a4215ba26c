"""Decides when circuit.json (coordinator/starting/workers/circuit_file.py) is written again."""

from __future__ import annotations

from coordinator.specification import PipelineSpec
from coordinator.starting.topics.setup import write_owner
from coordinator.transition.course import Course
from io_kafka.step_log.state import StepLogState


class CircuitJson:
    """Keeps circuit.json as the databases are: those of the layout, and the circuit of the version that was opened or completed last."""

    def __init__(self, files: PipelineSpec, course: Course) -> None:
        self._files, self._course = files, course
        self._written: tuple[int, int, int | None] | None = None
        """The layout, the revision and `until` of what was written last."""

    def keep(self, log: StepLogState, step: int) -> None:
        """Called at every boundary, so the file is written before workers leave. `step`: before which the version was taken that the databases
        have. After a restore that is an earlier one than the last checkpoint of the log."""
        course, revision = self._course, self._course.revision_at(step)
        until = log.revisions.last_with_views_of(revision)
        if log.layout is not None and (log.layout.number, revision, until) != self._written:
            write_owner(
                self._files,
                course.answers_of(revision),
                log,
                until,
                since=log.revisions.first_with_views_of(revision),
                marks=course.marks_of(revision),
                made_with=course.made_with_of(revision),
            )
            self._written = (log.layout.number, revision, until)
