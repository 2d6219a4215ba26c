"""Follows a transition until it is settled or stands still, and says how it ended."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from rich.live import Live

from base.fault import ExitCode
from stepwell.commands.common import err, note
from stepwell.commands.transition_text import GOES_ON, WAITING, TransitionBar
from stepwell.errors import StepwellError
from stepwell.service.client import ControlClient, NotRunning

LOOK_SECONDS = 0.2
"""Between two looks at the status: fast enough for a line that moves, and no load for the service."""


BEGIN_SECONDS_MAX = 5.0
"""The time for the status to show a transition that the service has accepted."""


class NotApplied(StepwellError):
    """The transition has ended, but the revision that was asked for is not in force."""

    exit_code = ExitCode.STATE


@dataclass(frozen=True)
class AwaitedTransition:
    """The transition that was asked for. `number`: of the revision that it leads to. `hold`: whether it is to stop before the switch. `before`:
    how the last transition before it ended, as the status has it."""

    number: int
    hold: bool
    before: Mapping[str, Any] | None

    def stands_still(self, status: Mapping[str, Any]) -> bool:
        """Whether it waits for the user."""
        if self.is_over(status):
            return False
        phase = status["transition"]["phase"]
        return phase in WAITING or (self.hold and phase == "ready")

    def is_settled(self, status: Mapping[str, Any]) -> bool:
        """Whether there is nothing more to wait for, as far as the status says so."""
        is_in_force = status["revision"] >= self.number or self.ending(status) is not None
        return self.stands_still(status) or (self.is_over(status) and is_in_force)

    def is_over(self, status: Mapping[str, Any]) -> bool:
        """Whether it is settled, or was never begun."""
        found = status["transition"]
        return found is None or found["number"] != self.number

    def ending(self, status: Mapping[str, Any]) -> dict[str, Any] | None:
        """How it ended; None if the service does not say so."""
        found: dict[str, Any] | None = status["transition_last"]
        return found if found is not None and found != self.before and found["number"] == self.number else None


def follow(
    client: ControlClient, expected: AwaitedTransition, first: Mapping[str, Any], *, quiet: bool
) -> dict[str, Any]:
    """Shows the transition that the service has just accepted until it is settled or stands still, and returns the status then. `first`: the
    service's answer. Raises NotApplied, NotRunning and ServiceSilent. Ctrl-C leaves it running."""
    pid, deadline = client.endpoint().pid, time.monotonic() + BEGIN_SECONDS_MAX
    seen = first["transition"]
    # A file gets the end alone, as a line of text.
    live = None if quiet else Live("", console=err, auto_refresh=False, transient=True)
    try:
        with live or nullcontext():
            while True:
                status = _status(client, pid, expected)
                may_begin_yet = seen is None and time.monotonic() < deadline
                if expected.is_settled(status) or (expected.is_over(status) and not may_begin_yet):
                    break
                seen = status["transition"] or seen
                if live is not None and seen is not None:
                    live.update(TransitionBar(seen), refresh=True)
                time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:
        note(f"The transition goes on. {GOES_ON}")
        raise
    _refuse_another_end(status, expected, seen)
    return status


def _status(client: ControlClient, pid: int, expected: AwaitedTransition) -> dict[str, Any]:
    """The status of the service, or its last one if it has ended after the transition."""
    try:
        return client.status_when_it_answers()
    except NotRunning:
        last = client.last_run(pid)
        if last is not None and expected.ending(last) is not None:
            return last
        if last is not None and (last["transition"] or {}).get("phase") == "preparing":
            raise NotApplied(
                f"the service has stopped before the transition began, so it is refused. Revision {expected.number - 1} stays in force, and "
                "nothing was written.",
                "Put the former files back, start the service with `stepwell run`, and apply the change again.",
            ) from None
        error = f": {last['error']}" if last is not None and last.get("error") else "."
        raise NotRunning(
            f"the service has ended before the transition was settled{error}",
            f"The next `stepwell run` goes on with what is recorded of it. {GOES_ON}",
        ) from None


def _refuse_another_end(status: Mapping[str, Any], expected: AwaitedTransition, seen: Mapping[str, Any] | None) -> None:
    """Raises NotApplied if the transition is over and has not led to its revision. `seen`: it, when it was seen last."""
    if not expected.is_over(status):
        return
    ended = expected.ending(status)
    if ended is None and status["revision"] < expected.number:
        why = "" if seen is None else seen["error"] or seen["held_because"]
        raise NotApplied(
            f"the transition could not begin: {why or 'the service does not say why, and its log may.'}",
            f"Revision {status['revision']} stays in force, and nothing was written.",
        )
    if ended is not None and ended["outcome"] == "aborted":
        raise NotApplied(
            f"the transition was aborted, and revision {expected.number - 1} stays in force.",
            "Nothing of it was written. `stepwell apply` can begin it again.",
        )
