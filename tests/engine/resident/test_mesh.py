"""The exchange of a stage, over connections that only hand out what a test puts in."""

from __future__ import annotations

from collections import deque

import pytest

from base.term import Term
from engine.errors import TaskLost
from engine.resident.frames import Frame
from engine.resident.mesh import Mesh
from engine.resident.messages import Address, Rows
from engine.resident.transport import Arrived, Event

TERM = Term(3, 1)


class Peer:
    """The connection to worker 0."""

    def __init__(self) -> None:
        self.sent: list[Frame] = []

    def send(self, frame: Frame) -> None:
        self.sent.append(frame)


class Network:
    """Both a transport and the events that arrive over it."""

    def __init__(self) -> None:
        self.peer, self.arriving = Peer(), deque[Event]()

    def connect(self, address: Address, seconds: float) -> Peer:
        return self.peer

    def next(self, seconds: float) -> Event | None:
        return self.arriving.popleft()

    def rows(self, serial: int, stage: int, term: Term = TERM) -> None:
        self.arriving.append(Arrived(self.peer, Frame(term, Rows(serial=serial, stage=stage, channels=()))))  # type: ignore[arg-type]


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.fixture
def mesh(network: Network) -> Mesh:
    """Of worker 1 of two, before its first order."""
    made = Mesh(network, network, TERM, "token", (), lambda event: None, lambda: 0.0, lambda *about: None)  # type: ignore[arg-type]
    made.join(1, ((0, Address("a", 1)), (1, Address("b", 1))))
    made.begin_step(0)
    return made


def test_a_stage_takes_one_message_from_each(mesh: Mesh, network: Network) -> None:
    network.rows(0, 0)
    assert {message.source for message in mesh.swap(5, 0, {})} == {0, 1}


def test_a_message_may_come_before_its_stage_and_its_order(mesh: Mesh, network: Network) -> None:
    for serial, stage in ((0, 0), (0, 1), (1, 0)):
        network.rows(serial, stage)
    assert len(mesh.swap(5, 0, {})) == len(mesh.swap(5, 1, {})) == 2
    mesh.begin_step(1)
    assert len(mesh.swap(6, 0, {})) == 2


@pytest.mark.parametrize(("arriving", "stage"), [((0, 0, 1), 0), ((1, 1, 0), 1)], ids=["over", "not begun"])
def test_a_second_message_of_a_stage_is_refused(
    mesh: Mesh, network: Network, arriving: tuple[int, ...], stage: int
) -> None:
    for sent in arriving:
        network.rows(0, sent)
    with pytest.raises(TaskLost, match=f"worker 0 has sent stage {stage} of order 0 twice"):
        mesh.swap(5, 0, {}), mesh.swap(5, 1, {})


def test_what_is_left_of_an_older_order_is_dropped(mesh: Mesh, network: Network) -> None:
    mesh.begin_step(1)
    network.rows(0, 0)
    network.rows(1, 0)
    assert len(mesh.swap(5, 0, {})) == 2


def test_a_message_of_another_term_is_refused(mesh: Mesh, network: Network) -> None:
    network.rows(0, 0, Term(2, 0))
    with pytest.raises(TaskLost, match="term 2"):
        mesh.swap(5, 0, {})
