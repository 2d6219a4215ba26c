"""The real transport: order, size, both directions at once, and every way in which a connection ends."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from base.term import Term
from engine.resident.certificates import VALID_FOR, make_certificate
from engine.resident.frames import STRANGER_BYTES_MAX, Frame
from engine.resident.messages import SocketAddress, StageRows, Stop
from engine.resident.sockets import SocketConnection, SocketTransport
from engine.resident.transport import Accepted, Arrived, Connection, Disconnected, Event, Events

WAIT_SECONDS_MAX = 30.0
TERM = Term(0, 0)
CERTIFICATE = make_certificate("pipeline", datetime.now(UTC))
LARGE_BYTES = 32 << 20  # far beyond what the kernel buffers

Pair = tuple[SocketTransport, SocketTransport, Connection, Connection]


@pytest.fixture(params=["plain", "TLS"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """(two transports, a connection from the first to the second, its other end)."""
    certificate = CERTIFICATE if request.param == "TLS" else None
    with (
        closing(SocketTransport("127.0.0.1", certificate)) as near,
        closing(SocketTransport("127.0.0.1", certificate)) as far,
    ):
        connection = near.connect(far.address, 5.0)
        (event,) = poll_until(far, lambda events: bool(events))
        assert isinstance(event, Accepted)
        event.connection.trust()
        if certificate is not None:
            shake_hands(near, far, connection, event.connection)
        yield near, far, connection, event.connection


def shake_hands(near: SocketTransport, far: SocketTransport, connection: Connection, back: Connection) -> None:
    """The first frame of each side needs both transports; after it, TLS takes no other path than plain sockets do."""
    for sender, receiver, end in ((near, far, connection), (far, near, back)):
        end.send(Frame(TERM, Stop(step=0)))
        arrive(sender, receiver, 1)


def poll_until(transport: SocketTransport, done: Callable[[list[Event]], bool]) -> list[Event]:
    events: list[Event] = []
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not done(events):
        assert time.monotonic() < deadline, events
        events += transport.poll(0.05)
    return events


def ended(events: list[Event]) -> bool:
    return any(isinstance(event, Disconnected) for event in events)


def frames(events: list[Event]) -> list[Frame]:
    return [event.frame for event in events if isinstance(event, Arrived)]


def arrive(sender: SocketTransport, receiver: SocketTransport, count: int) -> list[Frame]:
    """The frames that arrive while both transports are polled, `count` at least."""
    arrived: list[Frame] = []
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while len(arrived) < count:
        assert time.monotonic() < deadline
        sender.poll(0.01)
        arrived += frames(receiver.poll(0.01))
    return arrived


def test_frames_arrive_in_order_whatever_their_size(pair: Pair) -> None:
    near, far, connection, _ = pair
    sizes = [0, 1, 63, 64, 65, 1 << 20, 0, 5 << 20, 3]
    sent = [Frame(TERM, Stop(step=i), (bytes([i]) * size,)) for i, size in enumerate(sizes)]
    for frame in sent:
        connection.send(frame)
    arrived = arrive(near, far, len(sent))
    assert [frame.message for frame in arrived] == [frame.message for frame in sent]
    assert [bytes(memoryview(frame.buffers[0])) for frame in arrived] == [frame.buffers[0] for frame in sent]


def test_two_that_send_to_each_other_do_not_block_each_other(pair: Pair) -> None:
    near, far, connection, back = pair
    body = pa.py_buffer(bytes(LARGE_BYTES))
    found: dict[str, list[Event]] = {}

    def exchange(name: str, transport: SocketTransport, out: Connection) -> None:
        out.send(Frame(TERM, StageRows(serial=0, stage=0, channels=(0,)), (body,)))
        found[name] = poll_until(transport, lambda events: bool(frames(events)))
        poll_until(transport, lambda _: not out.is_queued)  # type: ignore[attr-defined]

    threads = [
        threading.Thread(target=exchange, args=arguments)
        for arguments in (("near", near, connection), ("far", far, back))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS_MAX)
        assert not thread.is_alive()
    assert [len(memoryview(frames(events)[0].buffers[0])) for events in found.values()] == [LARGE_BYTES] * 2


def test_a_thread_may_send_beside_the_owner(pair: Pair) -> None:
    near, far, connection, _ = pair
    connection.send(Frame(TERM, Stop(step=0), (bytes(LARGE_BYTES),)))  # most of it is queued
    thread = threading.Thread(target=connection.send_now, args=(Frame(TERM, Stop(step=1)),))
    thread.start()
    arrived = frames(poll_until(far, lambda events: len(frames(events)) == 2))
    thread.join(WAIT_SECONDS_MAX)
    assert [frame.message for frame in arrived] == [Stop(step=0), Stop(step=1)]
    assert near.poll(0.0) == []


def test_an_end_is_reported_once_after_everything_that_arrived(pair: Pair) -> None:
    near, far, connection, back = pair
    connection.send(Frame(TERM, Stop(step=1)))
    connection.close()
    events = poll_until(far, ended)
    assert [type(event) for event in events] == [Arrived, Disconnected]
    assert back.is_gone() and not ended(far.poll(0.05))
    back.send(Frame(TERM, Stop(step=2)))  # goes nowhere, and raises nothing
    back.send_now(Frame(TERM, Stop(step=2)))
    assert near.poll(0.0) == []


def test_an_end_is_seen_before_anything_is_read(pair: Pair) -> None:
    """A worker that computes does not read, and its watch must know."""
    _, _, connection, back = pair
    assert not back.is_gone()
    before = back.bytes_arrived()
    connection.send(Frame(TERM, Stop(step=1)))
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while back.bytes_arrived() == before:
        assert time.monotonic() < deadline
    connection.close()
    while not back.is_gone():
        assert time.monotonic() < deadline


def test_bytes_count_before_and_after_they_are_read(pair: Pair) -> None:
    _, far, connection, back = pair
    connection.send(Frame(TERM, Stop(step=1)))
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while (unread := back.bytes_arrived()) == 0:
        assert time.monotonic() < deadline
    assert len(frames(far.poll(1.0))) == 1
    assert back.bytes_arrived() == unread


def test_rows_count_as_moved_and_signs_of_life_do_not(pair: Pair) -> None:
    near, far, connection, _ = pair
    connection.send_sign(Frame(TERM, Stop(step=1)))
    poll_until(far, lambda events: bool(frames(events)))
    assert near.bytes_moved == far.bytes_moved == 0
    connection.send(Frame(TERM, Stop(step=2), (bytes(1 << 16),)))
    poll_until(far, lambda events: bool(frames(events)))
    assert min(near.bytes_moved, far.bytes_moved) >= 1 << 16


def test_a_sign_of_life_never_waits_and_is_left_out_behind_anything_else(pair: Pair) -> None:
    near, far, connection, _ = pair
    connection.send_sign(Frame(TERM, Stop(step=0)))
    connection.send(Frame(TERM, Stop(step=1), (bytes(LARGE_BYTES),)))  # most of it is queued
    connection.send_sign(Frame(TERM, Stop(step=2)))
    arrived = arrive(near, far, 2)
    assert [frame.message for frame in arrived] == [Stop(step=0), Stop(step=1)]
    assert not connection.is_queued and frames(far.poll(0.1)) == []  # type: ignore[attr-defined]


def test_who_waits_to_send_gives_up_when_the_connection_is_closed(pair: Pair) -> None:
    _, _, connection, _ = pair
    thread = threading.Thread(target=connection.send_now, args=(Frame(TERM, Stop(step=1), (bytes(LARGE_BYTES),)),))
    thread.start()
    connection.send_sign(Frame(TERM, Stop(step=2)))  # not kept waiting by the thread
    connection.close()
    thread.join(WAIT_SECONDS_MAX)
    assert not thread.is_alive()


def test_a_stranger_is_heard_one_frame_at_a_time() -> None:
    """So whoever sends many is judged by the first."""
    with closing(SocketTransport("127.0.0.1")) as near, closing(SocketTransport("127.0.0.1")) as far:
        connection = near.connect(far.address, 5.0)
        for number in range(3):
            connection.send(Frame(TERM, Stop(step=number)))
        events = poll_until(far, lambda events: bool(frames(events)))
        assert [frame.message for frame in frames(events)] == [Stop(step=0)]
        next(event for event in events if isinstance(event, Accepted)).connection.close()
        assert frames(far.poll(0.1)) == []


def test_a_listener_without_free_descriptors_goes_on_later(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(SocketTransport("127.0.0.1")) as near, closing(SocketTransport("127.0.0.1")) as far:
        near.connect(far.address, 5.0)
        with monkeypatch.context() as full:

            class Full:
                def accept(self) -> None:
                    raise OSError(24, "Too many open files")

            real = far._listener
            full.setattr(far, "_listener", Full())
            assert far._accept() == []
            far._listener = real
        assert isinstance(poll_until(far, bool)[0], Accepted)


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\0" * 64, b"SW\x00\x01" + b"\xff" * 12 + b"x"]
)
def test_garbage_ends_the_connection_and_not_the_transport(pair: Pair, garbage: bytes) -> None:
    near, far, connection, _ = pair
    with socket.create_connection(far.address, 5.0) as raw:
        raw.sendall(garbage)
        events = poll_until(far, ended)
    assert any(isinstance(event, Disconnected) and event.connection is not connection for event in events)
    connection.send(Frame(TERM, Stop(step=1)))
    assert near.poll(0.0) == []
    assert frames(poll_until(far, lambda events: bool(frames(events)))) == [Frame(TERM, Stop(step=1))]


@pytest.mark.parametrize("theirs", ["none", "another", "expired"])
def test_whoever_lacks_the_certificate_of_the_run_is_not_heard(theirs: str) -> None:
    """Neither end takes a frame from the other."""
    now = datetime.now(UTC)
    certificates = {
        "none": None,
        "another": make_certificate("pipeline", now),
        "expired": make_certificate("pipeline", now - VALID_FOR),
    }
    ours = CERTIFICATE if theirs != "expired" else certificates["expired"]
    with (
        closing(SocketTransport("127.0.0.1", certificates[theirs])) as near,
        closing(SocketTransport("127.0.0.1", ours)) as far,
    ):
        connection = near.connect(far.address, 5.0)
        connection.send(Frame(TERM, Stop(step=1)))
        events: list[Event] = []
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not ended(events):
            assert time.monotonic() < deadline
            near.poll(0.01)
            accepted = far.poll(0.01)
            for event in accepted:
                if isinstance(event, Accepted):
                    event.connection.send(Frame(TERM, Stop(step=2)))
            events += accepted
        assert not frames(events) and not frames(near.poll(0.1))


def test_a_frame_that_was_decrypted_with_another_one_is_read_without_more_bytes() -> None:
    """A stranger is heard one frame at a time, and the second one is in no buffer of the kernel any more."""
    with (
        closing(SocketTransport("127.0.0.1", CERTIFICATE)) as near,
        closing(SocketTransport("127.0.0.1", CERTIFICATE)) as far,
    ):
        connection = near.connect(far.address, 5.0)
        for number in range(3):
            connection.send(Frame(TERM, Stop(step=number)))
        arrived = arrive(near, far, 3)
        assert [frame.message for frame in arrived] == [Stop(step=number) for number in range(3)]


def test_a_log_does_not_have_the_key() -> None:
    assert "PRIVATE KEY" in CERTIFICATE.key and "PRIVATE KEY" not in f"{CERTIFICATE} {CERTIFICATE!r}"


def test_a_stranger_may_not_send_much() -> None:
    with closing(SocketTransport("127.0.0.1")) as near, closing(SocketTransport("127.0.0.1")) as far:
        near.connect(far.address, 5.0).send(Frame(TERM, Stop(step=1), (bytes(STRANGER_BYTES_MAX + 1),)))
        events = poll_until(far, ended)
        assert not frames(events)
        assert "exceeds the bounds" in next(event.reason for event in events if isinstance(event, Disconnected))


def test_nobody_listens() -> None:
    with closing(SocketTransport("127.0.0.1")) as near:
        with closing(SocketTransport("127.0.0.1")) as gone:
            address = gone.address
        with pytest.raises(OSError):
            near.connect(SocketAddress(address.host, address.port), 1.0)


def test_an_event_that_raises_where_it_is_handled_takes_no_other_with_it(pair: Pair) -> None:
    _, far, connection, _ = pair
    events = Events(far)
    for number in range(2):
        connection.send(Frame(TERM, Stop(step=number)))
    connection.close()
    found: list[type[object]] = []
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while Disconnected not in found:
        assert time.monotonic() < deadline
        try:
            event = events.next(0.05)
            if event is not None:
                found.append(type(event))
                raise RuntimeError("in its handling")
        except RuntimeError:
            continue
    assert found == [Arrived, Arrived, Disconnected]


def test_a_closed_transport_frees_its_sockets() -> None:
    transport = SocketTransport("127.0.0.1")
    with closing(SocketTransport("127.0.0.1")) as far:
        connection = transport.connect(far.address, 5.0)
        transport.close()
        assert isinstance(connection, SocketConnection) and connection.socket.fileno() == -1
        assert ended(poll_until(far, ended))
