"""The listener for monitoring: who may see metrics, and whether the service lives and is ready."""

from __future__ import annotations

import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from base.address import Address
from coordinator.measures import Measures, PartitionRead, StepMeasured
from coordinator.shown_status import WAITING_FOR_KAFKA
from coordinator.status import StatusBoard
from stepwell.errors import SettingsError
from stepwell.project.settings import load_settings
from stepwell.service import bounded_protocol
from stepwell.service.bounded_protocol import CONNECTIONS_MAX
from stepwell.service.listener import TOKEN_FILE, Listener, MetricsUnavailable, check_listener, token_of
from stepwell.service.metrics.exposition import Exposition
from stepwell.service.probes import Probes, why_not_ready

DEADLINE_SECONDS = 20.0

LOOPBACK = Address("127.0.0.1", 0)
EVERYWHERE = Address("0.0.0.0", 0)


@contextmanager
def listening(board: StatusBoard, token: str | None = None, exposition: Exposition | None = None) -> Iterator[str]:
    listener = Listener(LOOPBACK, token, exposition or Exposition(board), Probes(board, 60.0))
    listener.start()
    try:
        yield f"http://{listener.address}"
    finally:
        listener.close()


def get(url: str, token: str | None = None) -> httpx.Response:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx.get(url, headers=headers, trust_env=False)


def test_metrics_need_the_token_and_probes_do_not() -> None:
    board = StatusBoard("shop")
    with listening(board, "t" * 32) as url:
        refused = [get(url + "/metrics", token) for token in (None, "t" * 31, "guessed")]
        assert {answer.status_code for answer in refused} == {401}
        assert all("shop" not in answer.text for answer in refused)
        assert 'stepwell_phase{phase="starting",pipeline="shop"} 1.0' in get(url + "/metrics", "t" * 32).text
        assert get(url + "/livez").status_code == 200
        assert get(url + "/readyz").status_code == 503
        assert get(url + "/status", "t" * 32).status_code == 404, "its token controls nothing"
    with listening(board) as url:
        assert get(url + "/metrics").status_code == 200


def test_a_token_survives_a_restart_and_is_private(tmp_path: Path) -> None:
    assert token_of(LOOPBACK, None, tmp_path) is None and not list(tmp_path.iterdir())
    token = token_of(EVERYWHERE, None, tmp_path / "new")
    file = tmp_path / "new" / TOKEN_FILE
    assert token is not None and len(token) > 32 and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token_of(EVERYWHERE, None, tmp_path / "new") == token
    assert token_of(LOOPBACK, file, tmp_path) == token, "a file that is named counts on loopback too"


def test_a_file_without_a_token_is_named(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("short\n")
    with pytest.raises(MetricsUnavailable, match=f"{file} has fewer than 16 characters") as refused:
        token_of(EVERYWHERE, file, tmp_path)
    assert "the next start makes one" in refused.value.what_to_do and "short" not in str(refused.value)
    with pytest.raises(MetricsUnavailable, match=str(tmp_path)):
        token_of(EVERYWHERE, tmp_path, tmp_path)  # a folder


def test_an_address_that_is_taken_is_named() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = Address("127.0.0.1", other.getsockname()[1])
        board = StatusBoard("p")
        with pytest.raises(MetricsUnavailable, match=f"listen for metrics at {address}: Address already in use"):
            Listener(address, None, Exposition(board), Probes(board, 60.0))
    with pytest.raises(MetricsUnavailable, match=r"no\.such\.host\.invalid:9464"):
        Listener(Address("no.such.host.invalid", 9464), None, Exposition(board), Probes(board, 60.0))


def test_what_no_listener_can_have_is_told_while_another_run_listens(tmp_path: Path) -> None:
    """A run that takes the place of another one gets the address when that one has ended."""
    file = tmp_path / "token"
    file.write_text("short\n")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = Address("127.0.0.1", other.getsockname()[1])
        check_listener(address, None, tmp_path)
        with pytest.raises(MetricsUnavailable, match="fewer than 16 characters"):
            check_listener(address, file, tmp_path)
    with pytest.raises(MetricsUnavailable, match=r"no\.such\.host\.invalid:9464"):
        check_listener(Address("no.such.host.invalid", 9464), None, tmp_path)


# Whoever reaches it, and says nothing


def opened(url: str, said: bytes = b"") -> socket.socket:
    host, _, port = url.removeprefix("http://").rpartition(":")
    made = socket.create_connection((host, int(port)), timeout=DEADLINE_SECONDS)
    made.sendall(said)
    return made


def heard(connection: socket.socket) -> bytes | None:
    """All that the other side says before it closes the connection; None if it does not close it before the deadline."""
    parts = []
    try:
        while part := connection.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:
        pass
    except TimeoutError:
        return None
    return b"".join(parts)


def is_closed(connection: socket.socket) -> bool:
    return heard(connection) is not None


@pytest.mark.parametrize("said", [b"", b"GET /livez HTTP/1.1\r\nHost: x\r\n"])
def test_idle_connections_are_bounded_and_shut_nobody_out(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_protocol, "REQUEST_SECONDS_MAX", 1e4)
    board = StatusBoard("shop")
    with listening(board, "t" * 32) as url, ExitStack() as all_open:
        idle = [all_open.enter_context(opened(url, said)) for _ in range(CONNECTIONS_MAX + 20)]
        assert get(url + "/livez").status_code == 200
        assert get(url + "/metrics", "t" * 32).status_code == 200
        assert all(is_closed(each) for each in idle[:20]), "the oldest make room"
        for each in idle[-10:]:
            each.settimeout(0.01)
        assert not any(is_closed(each) for each in idle[-10:])


def test_answers_that_nobody_reads_shut_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each connection asks again and again, and never reads, so that its answer waits for it."""
    board = StatusBoard("shop")
    pushy = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n" * 200
    with listening(board) as url, ExitStack() as all_open:
        for _ in range(CONNECTIONS_MAX):
            all_open.enter_context(opened(url, pushy))
        assert get(url + "/livez").status_code == 200


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET /livez HTTP/1.1\r\nHost: x\r\n",
        b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nbody",
        b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\nGET /livez",
    ],
)
def test_a_connection_without_a_whole_request_is_closed(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_protocol, "REQUEST_SECONDS_MAX", 0.05)
    with listening(StatusBoard("shop")) as url, opened(url, said) as connection:
        assert is_closed(connection)


def test_an_answer_has_a_deadline_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The metrics are not there before the listener has closed the connection."""
    board, gone = StatusBoard("shop"), threading.Event()
    exposition = Exposition(board)
    monkeypatch.setattr(exposition, "text", lambda accept: (str(gone.wait(DEADLINE_SECONDS)), "text/plain"))
    monkeypatch.setattr(bounded_protocol, "ANSWER_SECONDS_MAX", 0.05)
    with (
        listening(board, exposition=exposition) as url,
        opened(url, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n") as connection,
    ):
        assert heard(connection) == b"" and not gone.is_set()
        gone.set()


def test_a_slow_answer_is_no_late_request(monkeypatch: pytest.MonkeyPatch) -> None:
    board, late = StatusBoard("shop"), threading.Event()
    exposition = Exposition(board)
    monkeypatch.setattr(exposition, "text", lambda accept: (str(late.wait(0.3)), "text/plain"))
    monkeypatch.setattr(bounded_protocol, "REQUEST_SECONDS_MAX", 0.05)
    with listening(board, exposition=exposition) as url:
        assert get(url + "/metrics").text == "False"


def test_probes_copy_no_status(monkeypatch: pytest.MonkeyPatch) -> None:
    board = StatusBoard("shop")
    board.update(phase="run", lag={"in/0": 5}, kafka_up=False)
    monkeypatch.setattr(StatusBoard, "show", lambda self: pytest.fail("the whole status"))
    monkeypatch.setattr(Measures, "show", lambda self: pytest.fail("all measures"))
    with listening(board) as url:
        assert get(url + "/livez").json() == {"live": True, "phase": WAITING_FOR_KAFKA}
        board.update(kafka_up=True)
        assert "none was read yet" in get(url + "/readyz").text


@pytest.mark.parametrize(
    ("text", "host", "port", "is_loopback"),
    [
        ("127.0.0.1:9464", "127.0.0.1", 9464, True),
        ("0.0.0.0:0", "0.0.0.0", 0, False),
        ("[::1]:80", "::1", 80, True),
        ("[::]:65535", "::", 65535, False),
        ("localhost:1", "localhost", 1, True),
        ("host.example:1", "host.example", 1, False),
    ],
)
def test_an_address_is_read_and_written(text: str, host: str, port: int, is_loopback: bool) -> None:
    address = Address.parse(text)
    assert (address.host, address.port, address.is_loopback, str(address)) == (host, port, is_loopback, text)


@pytest.mark.parametrize("text", ["9464", ":9464", "host:", "host:x", "host:65536", "::1:80", "[::1]", "[host]:1", ""])
def test_what_is_no_address_is_an_error_of_the_setting(text: str) -> None:
    with pytest.raises(SettingsError, match=r"stepwell\.metrics\.address"):
        load_settings({"stepwell.metrics.address": text})


# Ready


def read_until(board: StatusBoard, seconds_ago: float) -> None:
    at = int(1000 * (time.time() - seconds_ago))
    board.measures.note_step(StepMeasured(took_ms=1, parts_ms={}, reads=[PartitionRead("in", 0, 1, 1, at, at)]))


def why(board: StatusBoard) -> list[str]:
    return why_not_ready(*board.of_probes(), board.measures, 60.0)


@pytest.mark.parametrize(
    "phase", ["starting", "recovering", "paused", "stopping", "waiting for Kafka since 07:00", "failed"]
)
def test_a_service_that_does_not_run_is_not_ready(phase: str) -> None:
    board = StatusBoard("p")
    board.update(phase=phase)
    assert why(board) == [f"the service is at: {phase}"]


def test_a_service_is_ready_while_it_keeps_up(monkeypatch: pytest.MonkeyPatch) -> None:
    board = StatusBoard("p")
    board.update(phase="run")
    assert why(board) == []
    board.update(lag={"in/0": 5})
    assert why(board) == ["1 input partitions have messages, and none was read yet"]
    read_until(board, 30)
    assert why(board) == []
    read_until(board, 90)
    assert why(board) == ["1 input partitions are more than 60 s late, and the lag does not fall"]
    board.update(lag={"in/0": 0})
    assert why(board) == [], "nothing waits"
    board.update(lag={"in/0": 5})
    monkeypatch.setattr(Measures, "is_lag_falling", property(lambda self: True))
    assert why(board) == []


def test_a_failed_service_does_not_live() -> None:
    board = StatusBoard("p")
    with listening(board) as url:
        board.update(phase="failed", error="secret")
        assert (
            get(url + "/livez").status_code == 503
            and "secret" not in get(url + "/livez").text + get(url + "/readyz").text
        )
