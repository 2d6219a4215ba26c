"""A service that is measured while it runs: its status is looked at, and it is asked for something."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from bench.ours import RunFailed
from stepwell.errors import StepwellError
from stepwell.service.client import ControlClient

WAIT_SECONDS_MAX = 900.0
LOOK_SECONDS = 0.1


class Service:
    """A service whose status is looked at. `may_be_idle`: whether what is waited for may come after all input is read."""

    def __init__(self, client: ControlClient, is_running: Callable[[], bool], *, may_be_idle: bool = False) -> None:
        self.client, self.is_running, self._may_be_idle = client, is_running, may_be_idle

    def wait(self, until: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first status that `until` accepts. Raises RunFailed."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while time.monotonic() < deadline:
            if not self.is_running():
                raise RunFailed("the service has ended")
            with suppress(StepwellError):  # it has just been started
                if until(status := self.client.status()):
                    return status
                if not self._may_be_idle and status["lag"] and not any(status["lag"].values()):
                    raise RunFailed("all input is read, and the changes have not ended: it needs more rows")
            time.sleep(LOOK_SECONDS)
        raise RunFailed(f"the service did not come so far within {WAIT_SECONDS_MAX:g} s")

    def wait_steps(self, count: int) -> dict[str, Any]:
        goal = self.wait(lambda status: True)["steps_run"] + count
        return self.wait(lambda status: status["steps_run"] >= goal)

    def wait_checkpoints(self, count: int, since: int) -> dict[str, Any]:
        """The status when there are so many more than those up to version `since`."""
        return self.wait(lambda status: status["checkpoint_version"] >= since + count)

    def stop(self) -> None:
        """Lets the service make its last checkpoint and end."""
        self.client.ask("stop")
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while self.is_running() and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)

    def pause(self) -> None:
        """Pauses the steps and waits for a checkpoint of all of them."""
        self.client.ask("pause")
        self.wait(lambda status: status["phase"] == "paused")
        self.client.ask("checkpoint")
        self.wait(lambda status: status["checkpoint_step"] == status["step"] + 1)

    def resume(self) -> None:
        self.client.ask("resume")
