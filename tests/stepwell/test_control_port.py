"""The port of the control endpoint."""

from __future__ import annotations

import socket

import pytest

from base.fault import ExitCode, exit_code_of
from coordinator.requests import Requests
from coordinator.status import StatusBoard
from stepwell.service.server import ControlServer, PortUnavailable
from tests.stepwell.unasked import unasked


def test_a_port_that_is_taken_is_an_error_with_advice() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(
            PortUnavailable, match=rf"127.0.0.1:{port}: Address already in use\n  Set stepwell.control.port"
        ) as raised:
            ControlServer(
                Requests(), StatusBoard("p"), port, {}, plan_files=lambda: pytest.fail("planned"), answer_query=unasked
            )
    assert exit_code_of(raised.value) == ExitCode.MACHINE
