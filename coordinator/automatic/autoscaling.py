"""The shell of automatic layouts: it samples the load in the background, asks for rescales as a user does, and says why.

machine.py decides. The bounds are in the step log, so that they hold after a restart and on another host. Those of the project's settings
count if they were changed since a run acted on them last, as `stepwell.workers` does; then they replace what a command has said."""

from __future__ import annotations

from base.logger import Logger
from coordinator.automatic.automatic_shown import automatic_status
from coordinator.automatic.choice import Surroundings, WorkersChoice, WorkersLimits
from coordinator.automatic.load_file import LoadFile, read_load
from coordinator.automatic.machine import AutoMachine
from coordinator.automatic.requests import AutoRequest
from coordinator.automatic.sampling import Sampler
from coordinator.core import Core
from coordinator.inbox import PendingRequest
from coordinator.loop_part import LoopPart, Recovered
from coordinator.measures import SettledStep
from coordinator.requests import Requests
from coordinator.rescale.requests import LayoutRequest, RescaleRefused, RescaleRequest
from coordinator.specification import PipelineSpec
from coordinator.status import StatusBoard
from engine.resident.crew import Crew
from engine.resident.launcher import Launcher
from io_kafka.clients.writer import PipelineWriter
from io_kafka.step_log.layout_records import AutoBounds, LayoutAuto, MoveStrategy
from io_kafka.step_log.state import StepLogState

_log = Logger("coordinator.automatic")

REMEMBERED_SAMPLES = 360
"""How many samples of the recorded load a run begins with. They are those of the last hour, and say what its workers have managed. More would
delay the start by more than a fifth of a second."""


class Automatic(LoopPart):
    """The automatic choice of the number of workers in one run."""

    def __init__(
        self, spec: PipelineSpec, launcher: Launcher, writer: PipelineWriter, requests: Requests, board: StatusBoard
    ) -> None:
        self._spec, self._launcher, self._writer, self._requests, self._board = spec, launcher, writer, requests, board
        self._monotonic = spec.kafka.outside.monotonic
        self._machine = AutoMachine(spec.limits.rows)
        self._file = None if spec.load_file is None else LoadFile(spec.load_file)
        self._sampler: Sampler | None = None
        self._asked: PendingRequest[LayoutRequest] | None = None
        self._told = ""  # the decision that was logged last
        self._changes = 0

    @property
    def _log_state(self) -> StepLogState:
        return self._writer.state

    def recovered(self, recovered: Recovered) -> None:
        """At the start of the run, what the settings say is recorded."""
        if self._sampler is None:
            self._sampler = Sampler(self._spec.pace.sample_seconds, self._monotonic())
            self._remember()
            self._act_on_settings()
        self._sampler.note(is_changing=False, is_disturbed=True)

    def _act_on_settings(self) -> None:
        setting, record = self._spec.auto.bounds, self._log_state.auto
        if setting != (None if record is None else record.asked):
            self._record(setting)
        else:
            self._bound()

    def _record(self, bounds: AutoBounds | None) -> None:
        self._writer.log.append([LayoutAuto(epoch=self._writer.epoch, bounds=bounds, asked=self._spec.auto.bounds)])
        _log.info("automatic layouts", bounds="off" if bounds is None else str(bounds))
        self._bound()

    def _bound(self) -> None:
        """The machine goes by what the log says."""
        record, settings = self._log_state.auto, self._spec.auto
        bounds = None if record is None else record.bounds
        limits = (
            None if bounds is None else WorkersLimits(bounds.min, bounds.max, settings.drain_s, settings.lower_after_s)
        )
        self._machine.bound(limits)
        self._show()

    def _remember(self) -> None:
        """What earlier runs on this host have sampled."""
        if self._file is None:
            return
        try:
            recorded = read_load(self._file.path, REMEMBERED_SAMPLES)
        except OSError as fault:
            _log.warning("the recorded load cannot be read", file=str(self._file.path), fault=str(fault))
            return
        if recorded.damaged:
            _log.info("damaged lines of the recorded load are left out", lines=recorded.damaged)
        for (_, sample), gap_s in zip(recorded.samples, recorded.gaps, strict=True):
            if gap_s:
                self._machine.interrupt(max(0.0, gap_s))
            self._machine.remember(sample)
        if recorded.samples:
            self._machine.interrupt(max(0.0, self._file.now() - recorded.samples[-1][0]))

    # What the loop tells and asks

    def note_step(self, step: SettledStep) -> None:
        if self._sampler is not None:
            self._sampler.note_step(step.rows, step.took_ms / 1e3, self._monotonic())

    @property
    def awaits_answers(self) -> bool:
        """What it asks for is answered by the loop itself."""
        return False

    def look(self, core: Core, crew: Crew) -> None:
        assert self._sampler is not None, "no worker has opened a checkpoint"
        for asked in self._requests.automatic.take():
            asked.answer(self._answer(asked.request))
        self._take_answer(core)
        blocked, is_changing = self._why_blocked(core), not core.rescale.is_idle
        self._sampler.note(is_changing=is_changing, is_disturbed=bool(blocked) and not is_changing)
        now = self._monotonic()
        if self._sampler.is_due(now):
            self._sample(self._sampler, core, blocked, now)

    def _answer(self, request: AutoRequest) -> RescaleRefused | None:
        """Why the request is refused; None if it is met."""
        slots = self._launcher.slots
        if request.bounds is not None and slots is not None and request.bounds.min > slots:
            return RescaleRefused(
                f"Spark has {slots} task slots, and at least {request.bounds.min} workers need one each; nothing was changed.",
                "Ask for fewer workers, or give Spark more task slots.",
            )
        self._record(request.bounds)
        return None

    def _why_blocked(self, core: Core) -> str:
        """Why no change may be asked for now; empty if it may."""
        log, transition = self._log_state, core.transition
        if core.goal.ends_by_itself:
            return "this run ends by itself."
        if core.stopping:
            return "the service is stopping."
        if core.paused:
            return "the service is paused."
        if core.is_replaying(log):
            return "steps of an earlier run, or of before a loss, are replayed."
        if core.blocked.steps:
            return "the steps wait for the checkpoint store."
        if log.revisions.phase is not None or transition.has_request:
            return "a change of the project is under way."
        return "" if core.rescale.is_idle else "a change of the layout is under way."

    def _sample(self, sampler: Sampler, core: Core, blocked: str, now: float) -> None:
        sample = sampler.take(self._board.lag_rows(), len(core.rescale.owned), now)
        if self._file is not None:
            self._file.append(sample)
        choice = self._machine.take(sample, self._surroundings(blocked))
        if choice.workers is not None:
            self._ask(choice, choice.workers)
        if choice.kind != self._told or choice.workers is not None:
            self._told = choice.kind
            if self._machine.limits is not None:
                _log.info("number of workers", decision=choice.kind, to=choice.workers, reason=choice.reason)
        self._show()

    def _surroundings(self, blocked: str) -> Surroundings:
        status = self._board.layout_status()
        live = status.layout.get("measured", {}).get("live")
        return Surroundings(
            blocked=blocked,
            slots=self._launcher.slots,
            state_bytes=sum(status.worker_bytes.values()) if status.worker_bytes else None,
            bytes_per_s=None if live is None else live["bytes_per_s"],
            fault=status.layout_fault or "",
        )

    # Requests for rescales

    def _ask(self, choice: WorkersChoice, workers: int) -> None:
        try:
            self._asked = self._requests.layout.put(RescaleRequest(workers, MoveStrategy("live")))
            self._changes += 1
        except RescaleRefused:  # the run is over, or too many requests wait
            self._machine.withdrawn()

    def _take_answer(self, core: Core) -> None:
        if self._asked is None or not self._asked.done.is_set():
            return
        fault, self._asked = self._asked.fault, None
        if fault is None or not self._machine.is_asking:  # or there are other bounds meanwhile
            return
        if core.rescale.is_idle:
            self._machine.refused(fault.message if isinstance(fault, RescaleRefused) else str(fault))
        else:  # a user was first
            self._machine.withdrawn()
        _log.info("the change of the number of workers was refused", fault=str(fault))
        self._show()

    def _show(self) -> None:
        self._board.update(automatic=automatic_status(self._machine, self._changes))
