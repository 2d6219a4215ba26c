"""From the step log to workers with open databases, at the beginning of a run and after every loss.

Each recovery is an attempt of its own, with new workers and a higher term, so workers of an attempt before it can do nothing any more.
"""

from __future__ import annotations

from base.term import Term
from coordinator.checkpoints.completion import record_completion
from coordinator.goal import Goal
from coordinator.loop_part import Recovered
from coordinator.running.workers_shown import show_workers
from coordinator.specification import PipelineSpec
from coordinator.starting.workers.bind_workers import bind_workers, remove_left
from coordinator.starting.workers.binding import Bound
from coordinator.starting.workers.expected_databases import expected_databases
from coordinator.starting.workers.opening import open_latest
from coordinator.status import StatusBoard
from coordinator.stepping.inputs import Inputs
from coordinator.stepping.views_in_error import error_rows, error_texts
from coordinator.storing.restoring import layout_if_restored, restore_missing
from coordinator.storing.storing import Storing
from coordinator.transition.course import Course
from engine.model.placement import Placement
from engine.resident.crew import Crew, CrewLimits
from engine.resident.launcher import Cluster
from engine.resident.liveness import LivenessLimits
from io_kafka.clients.writer import PipelineWriter


class Recovery:
    """The recoveries of one run, from its claim to its end, whatever revisions it runs."""

    def __init__(
        self, files: PipelineSpec, cluster: Cluster, writer: PipelineWriter, board: StatusBoard, storing: Storing
    ) -> None:
        self._outside = files.kafka.outside
        self._cluster, self._writer, self._board, self._storing = cluster, writer, board, storing
        self._attempts = 0
        self._distrusted: frozenset[int] = frozenset()  # the workers whose databases are damaged

    def distrust(self, worker: int) -> None:
        """The database of this worker is damaged, so it is not opened again."""
        self._distrusted |= {worker}

    def make_crew(self, course: Course) -> Crew:
        """Makes the crew of the next attempt of the epoch."""
        term, spec = Term(self._writer.epoch, self._attempts), course.start.spec
        self._attempts += 1
        limits = CrewLimits(spec.register_s, LivenessLimits(spec.silence_s, spec.progress_s))
        tasks = expected_databases(spec, self._writer.state, course.log_id).tasks_needed
        transport = self._cluster.make_transport()
        return Crew(
            course.start.setup, tasks, term, launcher=self._cluster.launcher, transport=transport, limits=limits
        )

    def open_latest_checkpoint(self, crew: Crew, inputs: Inputs, course: Course, goal: Goal) -> Recovered:
        """Starts the workers, and opens the latest checkpoint that all of them have. `goal`: of the run."""
        spec, writer = course.start.spec, self._writer
        began = self._outside.monotonic()
        crew.launch()
        inputs.topics.check()  # while the workers start
        found = bind_workers(
            crew, spec, writer.state, course.log_id, distrusted=self._distrusted, restore=self._restore
        )
        version, owned = open_latest(crew, writer.state, found)
        remove_left(crew, found, writer.epoch)
        known = {name: topic.partitions for name, topic in writer.state.topics.items()}
        # A replay may read topics of another revision.
        crew.join(Placement.initial(owned, {**known, **inputs.topics.partitions}))
        show_workers(crew, self._board)
        record_completion(writer, version)
        if (layout := layout_if_restored(version, writer.state, writer.epoch)) is not None:
            writer.log.append([layout])
        self._board.update(
            recovery_ms=round(1e3 * (self._outside.monotonic() - began), 1),
            step=max(0, version.step - 1),
            checkpoint_version=version.version,
            checkpoint_step=version.step,
            in_error=error_texts(crew.setup.numbered, writer.state.errors, spec.column_names),
        )
        self._board.measures.show_error_rows(error_rows(crew.setup.numbered, writer.state.errors))
        return Recovered(term=crew.term, version=version, owned=owned, found=found, course=course, goal=goal)

    def _restore(self, crew: Crew, bound: Bound) -> None:
        stored = self._writer.state.stored
        assert stored is not None, "nothing is stored"
        restore_missing(
            crew, bound, stored, store=self._storing.store, outside=self._outside, distrusted=self._distrusted
        )
        self._distrusted = frozenset()
