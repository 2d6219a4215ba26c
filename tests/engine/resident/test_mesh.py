"""The exchange of a stage, over connections that only hand out what a test puts in."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from base.term import Term
from engine.analysis.stages import channels_of, plan_stages
from engine.errors import TaskLost
from engine.resident.frames import Buffer, Frame
from engine.resident.mesh import Mesh
from engine.resident.messages import SocketAddress, StageRows
from engine.resident.transport import Arrived, Event
from engine.rows import zset
from engine.run.exchange import to_buffer
from tests.engine.resident.local_cluster import CIRCUIT

TERM = Term(3, 1)
PLAN = plan_stages(CIRCUIT)
CHANNEL, COUNT = next(iter(PLAN.last_read)), len(channels_of(PLAN))
SCHEMA = zset.schema_of(CIRCUIT.nodes[CHANNEL.producer].types)


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

    def connect(self, address: SocketAddress, seconds: float) -> Peer:
        return self.peer

    def next(self, seconds: float) -> Event | None:
        return self.arriving.popleft()

    def rows(
        self,
        serial: int,
        stage: int,
        term: Term = TERM,
        channels: tuple[int, ...] = (),
        buffers: Sequence[Buffer] = (),
    ) -> None:
        peer: Any = self.peer
        frame = Frame(term, StageRows(serial=serial, stage=stage, channels=channels), tuple(buffers))
        self.arriving.append(Arrived(peer, frame))


@pytest.fixture
def network() -> Network:
    return Network()


def mesh_of(network: Any) -> Mesh:
    return Mesh(
        network,
        network,
        TERM,
        "token",
        PLAN,
        others=lambda event: None,
        now=lambda: 0.0,
        copies=lambda *about: None,
    )


@pytest.fixture
def mesh(network: Network) -> Mesh:
    """Of worker 1 of two, before its first order."""
    made = mesh_of(network)
    made.join(1, ((0, SocketAddress("a", 1)), (1, SocketAddress("b", 1))))
    made.begin_step(0)
    return made


def test_a_stage_takes_one_message_from_each(mesh: Mesh, network: Network) -> None:
    network.rows(0, 0)
    assert {message.source for message in mesh.exchange(5, 0, {})} == {0, 1}


def test_a_message_may_come_before_its_stage_and_its_order(mesh: Mesh, network: Network) -> None:
    for serial, stage in ((0, 0), (0, 1), (1, 0)):
        network.rows(serial, stage)
    assert len(mesh.exchange(5, 0, {})) == len(mesh.exchange(5, 1, {})) == 2
    mesh.begin_step(1)
    assert len(mesh.exchange(6, 0, {})) == 2


@pytest.mark.parametrize(("arriving", "stage"), [((0, 0, 1), 0), ((1, 1, 0), 1)], ids=["over", "not begun"])
def test_a_second_message_of_a_stage_is_refused(
    mesh: Mesh, network: Network, arriving: tuple[int, ...], stage: int
) -> None:
    for sent in arriving:
        network.rows(0, sent)
    with pytest.raises(TaskLost, match=f"worker 0 has sent stage {stage} of order 0 twice"):
        mesh.exchange(5, 0, {}), mesh.exchange(5, 1, {})


def test_what_is_left_of_an_older_order_is_dropped(mesh: Mesh, network: Network) -> None:
    mesh.begin_step(1)
    network.rows(0, 0)
    network.rows(1, 0)
    assert len(mesh.exchange(5, 0, {})) == 2


def test_a_message_of_another_term_is_refused(mesh: Mesh, network: Network) -> None:
    network.rows(0, 0, Term(2, 0))
    with pytest.raises(TaskLost, match="term 2"):
        mesh.exchange(5, 0, {})


ROWS = to_buffer(pa.Table.from_pylist([{**dict.fromkeys(SCHEMA.names), "weight": 1}], schema=SCHEMA))


def test_rows_arrive_by_their_channel(mesh: Mesh, network: Network) -> None:
    network.rows(0, 0, channels=(0,), buffers=[ROWS])
    (rows,) = (message.channels[CHANNEL] for message in mesh.exchange(5, 0, {}) if message.source == 0)
    assert rows.column("weight").to_pylist() == [1]


@pytest.mark.parametrize(
    ("channels", "buffers", "said"),
    [
        ((0,), (b"rubbish",), f"worker 0 has sent rows of node {CHANNEL.producer} in stage 0, which cannot be read"),
        ((0,), (ROWS.slice(0, ROWS.size // 2),), "cannot be read"),
        ((0,), (to_buffer(pa.table({"a": [1]})),), "other columns than expected: a int64, not c0"),
        ((COUNT,), (ROWS,), rf"worker 0 has sent channels \({COUNT},\) of stage 0, of which there are {COUNT}"),
        ((-1,), (ROWS,), f"of which there are {COUNT}"),
        ((0, 0), (ROWS, ROWS), f"of which there are {COUNT}"),
        ((0,), (), "not wholly"),
    ],
    ids=["no table", "half a table", "other columns", "no channel", "negative", "a channel twice", "no rows"],
)
def test_what_cannot_be_the_rows_of_a_stage_is_a_loss_of_its_sender(
    mesh: Mesh, network: Network, channels: tuple[int, ...], buffers: Sequence[Buffer], said: str
) -> None:
    network.rows(0, 0, channels=channels, buffers=buffers)
    with pytest.raises(TaskLost, match=said):
        mesh.exchange(5, 0, {})


@pytest.mark.parametrize("fault", [ConnectionRefusedError("refused"), OverflowError("port"), ValueError("host")])
def test_a_peer_that_names_no_address_is_a_loss(network: Network, fault: Exception) -> None:
    def connect(address: SocketAddress, seconds: float) -> Peer:
        raise fault

    network.connect = connect  # type: ignore[method-assign]
    made = mesh_of(network)
    with pytest.raises(TaskLost, match="worker 1 cannot connect to worker 0"):
        made.join(1, ((0, SocketAddress("a", 1)), (1, SocketAddress("b", 1))))
