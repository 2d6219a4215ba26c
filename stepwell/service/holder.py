"""Which run holds the pipeline now, and whether a new run may take it over.

The last claim in the step log names the holder: its host, process and endpoint. A holder that has recorded its end is followed at once, on
whatever host. One that answers keeps the pipeline. One whose process is known to have ended can be fenced at once. Any other holder, for
example one on another host, may be fenced if the step log has had no new record for `stepwell.takeover.silence`. With `--take-over` nothing
is checked. A wrong decision ends the older run, because it is fenced, but it never damages the data.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

from base.fault import ExitCode
from io_kafka.step_log.records import Claim
from io_kafka.step_log.state import StepLogState
from stepwell.errors import StepwellError
from stepwell.service.client import process_is_gone
from stepwell.service.endpoint import who_answers

LOOK_SECONDS = 0.5
"""The time between two looks at the step log while a holder may be dead."""


class HeldByAnother(StepwellError):
    """Another run of this pipeline is alive."""

    exit_code = ExitCode.HELD


def wait_until_claimable(
    pipeline: str,
    read_log: Callable[[], StepLogState],
    silence_s: float,
    *,
    take_over: bool,
    say: Callable[[str], None],
) -> int | None:
    """Waits until the pipeline may be claimed. Returns the epoch of the holder that may be replaced, or None if the pipeline never had a
    holder. Raises HeldByAnother."""
    state = read_log()
    claim = state.claim
    if claim is None:
        return None
    if take_over or state.has_ended or _is_gone(claim):
        return claim.epoch
    _refuse_if_alive(pipeline, claim)
    say(
        f"epoch {claim.epoch} on {claim.host} (process {claim.pid}) does not answer; waiting {silence_s:g} s for a sign of it"
    )
    silent_since, seen = time.monotonic(), state.offset_next
    while time.monotonic() - silent_since < silence_s:
        threading.Event().wait(LOOK_SECONDS)
        state = read_log()
        if state.has_ended and state.epoch == claim.epoch:
            break
        _refuse_if_alive(pipeline, claim)
        if state.offset_next != seen or state.epoch != claim.epoch:
            raise _refusal(pipeline, state.claim or claim, "it has just written to the step log")
        if _is_gone(claim):
            break
    return claim.epoch


def _refuse_if_alive(pipeline: str, claim: Claim) -> None:
    answer = who_answers(claim.endpoint) if claim.endpoint and claim.host == socket.gethostname() else None
    if answer is not None and answer["pipeline"] == pipeline:
        raise _refusal(pipeline, claim, f"it answers at {claim.endpoint}")


def _refusal(pipeline: str, claim: Claim, why: str) -> HeldByAnother:
    return HeldByAnother(
        f"pipeline {pipeline} is run by process {claim.pid} on {claim.host} (epoch {claim.epoch}): {why}",
        "Stop it with `stepwell stop`, or fence it with `stepwell run --take-over`.",
    )


def _is_gone(claim: Claim) -> bool:
    """Whether the holder's process ran on this host and has ended (or is only a zombie)."""
    return claim.host == socket.gethostname() and process_is_gone(claim.pid)
