"""`stepwell run`: the service. It goes on until it is stopped; Ctrl-C and SIGTERM stop it at a checkpoint."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated

import structlog
import typer

from coordinator.loop import Pipeline
from coordinator.requests import Requests
from coordinator.specification import PipelineSpec
from coordinator.status import StatusBoard
from io_kafka.step_log_reader import StepLogReader, ensure_step_log
from io_kafka.topics import Topics
from stepwell.commands.common import JsonOption, SetOption, SpecOption, err, project_of, reported, show
from stepwell.lowering.driver import lower
from stepwell.pipeline import pipeline_spec
from stepwell.plans import resolve
from stepwell.project import Project
from stepwell.service.holder import wait_for_turn
from stepwell.service.server import ControlServer
from stepwell.session import make_session


def run(
    spec: SpecOption = None,
    conf: SetOption = None,
    workers: Annotated[int | None, typer.Option(help="Workers that share the state.")] = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Take what is there, make a checkpoint, exit.")
    ] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Fence a run that holds the pipeline, without asking.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log what is done, not only what is wrong.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Keep the project's views up to date."""
    configure_logs(verbose=verbose)
    with reported(as_json):
        project = project_of(spec, conf, stepwell_workers=None if workers is None else str(workers))
        status = serve(project, available_now=available_now, take_over=take_over)
        text = f"stopped at a checkpoint: step {status['checkpoint_step']}, {status['rows']:,} rows read in this run"
        show(status, as_json=as_json, text=text)


def serve(project: Project, *, available_now: bool, take_over: bool) -> dict[str, object]:
    """Runs the pipeline in this process until it is stopped; returns its last status."""
    session = make_session(project.name, project.settings.spark)
    try:
        resolved = resolve(project, session)
        pipeline = pipeline_spec(resolved, lower(resolved))
        requests, board = Requests(), StatusBoard(project.name)
        turn = _turn(project, pipeline, take_over=take_over)
        server = ControlServer(requests, board, project.settings.stepwell.control_port)
        server.start()
        try:
            with _stopping_on_signals(requests):
                Pipeline(pipeline, session.sparkContext, requests, board).run(
                    available_now=available_now,
                    endpoint=server.endpoint.url,
                    expect_epoch=turn,
                    claimed=lambda epoch: _claimed(project, server, epoch),
                )
        finally:
            server.endpoint.remove(project.state_folder)
            server.close()
        return board.show()
    finally:
        session.stop()


def _turn(project: Project, pipeline: PipelineSpec, *, take_over: bool) -> int | None:
    topics = Topics(pipeline.kafka)
    ensure_step_log(topics, pipeline.log_topic)
    reader = StepLogReader(pipeline.kafka, pipeline.log_topic)
    silence_s = project.settings.stepwell.takeover_silence
    return wait_for_turn(pipeline.name, reader.read, silence_s, take_over=take_over, say=lambda text: err.print(text))


def _claimed(project: Project, server: ControlServer, epoch: int) -> None:
    server.endpoint.write(project.state_folder)
    err.print(f"{project.name}: epoch {epoch}, control at {server.endpoint.url}; stop with Ctrl-C or `stepwell stop`")


@contextmanager
def _stopping_on_signals(requests: Requests) -> Iterator[None]:
    """The first signal asks for a stop at a checkpoint, a second one ends the process as signals do."""
    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def stop(number: int, frame: FrameType | None) -> None:
        err.print("stopping at a checkpoint (once more to stop at once: the next run will replay)")
        requests.ask("stop")
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

    for number in former:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def configure_logs(*, verbose: bool) -> None:
    """One JSON object a line on standard error: warnings, or everything."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO if verbose else logging.WARNING),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
    )
