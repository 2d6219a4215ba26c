"""A frame arrives as it was sent, and what is no frame is rejected before anything is allocated for it."""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.slots import NO_SLOTS, SlotSet
from base.term import Term
from base.version import VersionId
from engine.model.placement import Placement
from engine.model.withholding import Withholding
from engine.operators.error_rows import ErrorRows
from engine.operators.facts import DivisionFacts
from engine.operators.findings import TimeReport, Work
from engine.resident import messages
from engine.resident.frames import (
    BODY_BYTES_MAX,
    HEAD_BYTES_MAX,
    MAGIC,
    PADDING_BYTES,
    PREFIX,
    STRANGER_BYTES_MAX,
    WIRE_VERSION,
    Frame,
    FrameError,
    Prefix,
    decode,
    encode,
)
from engine.resident.messages import Message, SocketAddress
from engine.run.sources import Checksum, PartitionReading
from engine.run.step_input import StepInput
from engine.run.tasks import StageTimes
from io_kafka.formats.encodings import AvroIds, ProtobufIds
from io_kafka.offsets import OffsetRange
from io_kafka.registry.unknown import UnknownSchemas
from storage.identity import FoundDatabase, Identity, UnneededDatabase
from storage.transaction import CutNumber

VERSION = VersionId(3, 17, "id")
SLOTS = SlotSet(((0, 3), (5, 65536)))
PLACEMENT = Placement(2, {0: SLOTS, 5: SlotSet(((3, 5),))}, {"t": (0, 5, 0)})
EVERY_MESSAGE: tuple[Message, ...] = (
    messages.Welcome(worker=2, birth="0", database="u"),
    messages.Refuse(reason="no"),
    messages.Remove(databases=(UnneededDatabase(1, "0", Identity("p", 1, "u")), UnneededDatabase(2, "3.1.0", None))),
    messages.Create(new=messages.NewDatabase(SLOTS, VERSION)),
    messages.FenceDatabase(),
    messages.OpenDatabase(version=VERSION, fenced=4),
    messages.Enter(step=4),
    messages.JoinPeers(members=((5, SocketAddress("i", 2)), (0, SocketAddress("h", 1))), placement=PLACEMENT),
    messages.UsePlacement(placement=PLACEMENT),
    messages.RunStep(
        serial=5,
        placement=3,
        program="a0",
        given=StepInput(
            facts=DivisionFacts(
                number=7,
                withholding=Withholding(frozenset({3}), frozenset({"b"}), frozenset({"a"})),
                filled=(3, 2**65),
                clock_us=2**50,
                idle=frozenset({"s"}),
                asks_border=True,
            ),
            ranges=(OffsetRange("t", 0, 3, 9),),
            on_error={"a": "skip"},
            grown=frozenset({"t"}),
            bytes_max=None,
            truncate={"a": "apply"},
            again=(OffsetRange("t", 1, 2, 4),),
            unknown=(UnknownSchemas("a", "t", (0, 2), (2**32 - 1,)),),
        ),
    ),
    messages.AdoptProgram(
        topic="p",
        digest="a0",
        step=7,
        first=5,
        topics={"s": ("t", "u")},
        partitions={"v": 2},
        schema_ids={
            "v": messages.RegisteredIds.of(AvroIds(1, None)),
            "w": messages.RegisteredIds.of(ProtobufIds(1, 2)),
        },
        revision=3,
        readable={2: "b0", 3: "c0"},
        later=("d0",),
    ),
    messages.PrefetchPrograms(topic="p", digests=("a0", "b0")),
    messages.ProgramsPrefetched(digests=("a0", "b0")),
    messages.ClearTables(numbers=(3, 4), bytes_max=5),
    messages.MeasureDifferences(numbers=(3,)),
    messages.ProgramAdopted(step=7),
    messages.TablesCleared(is_done=False),
    messages.DifferencesMeasured(sizes=(messages.Size(3, 4),)),
    messages.FreezeLayer(version=VERSION, in_error=("v",)),
    messages.FoldLayer(may_rewrite=True),
    messages.Read(views=("v", "w"), revision=3, checks_errors=True),
    messages.Pause(),
    messages.Resume(),
    messages.ExpediteFold(),
    messages.EstimateSlotBytes(slots=SLOTS),
    messages.CopySlots(slots=SLOTS, to=1, bytes_wanted=9, bytes_max=7),
    messages.DiscardCopies(),
    messages.SlotsCopied(slots=SLOTS, moved_bytes=5, is_done=True),
    messages.CopiesDiscarded(),
    messages.Copies(slots=SLOTS, keys=("00ff",), is_last=False),
    messages.CopyReceived(fault=None),
    messages.GiveSlots(number=CutNumber(3, 1), slots=SLOTS, to=5, bytes_max=7),
    messages.TakeSlots(number=CutNumber(3, 1), giver=0),
    messages.ReleaseSlots(number=CutNumber(3, 1), slots=SLOTS),
    messages.Leave(),
    messages.Stop(step=8),
    messages.Ping(),
    messages.Register(
        token="t",
        host="h",
        pid=1,
        address=SocketAddress("h", 2),
        fingerprint="{}",
        release="1",
        folder="/f",
        folder_name="n",
        folder_fault=None,
        free_bytes=9,
        is_companion=False,
    ),
    messages.Accompany(count=2),
    messages.Holds(
        databases=(
            FoundDatabase(0, Identity("p", 0, "u"), (VERSION,), 7),
            FoundDatabase(1, None, (), 0, "it cannot be read"),
        )
    ),
    messages.Removed(workers=(1,)),
    messages.Contents(version=VERSION, owned=SLOTS),
    messages.StoreVersion(version=VERSION, former=None, prefix="p/log/0/packs/0001-b0/00000007-c-3.1"),
    messages.VersionStored(chain="{}", bytes=7),
    messages.RestoreDatabase(version=VERSION, chain="{}", trusts=True),
    messages.DatabaseRestored(),
    messages.Created(),
    messages.DatabaseFenced(versions=(VERSION,), number=9),
    messages.DatabaseOpened(step=17, owned=NO_SLOTS, state_bytes=1, free_bytes=1 << 40),
    messages.Entered(step=4),
    messages.PeersJoined(),
    messages.StepDone(
        step=7,
        output=(1, 4),
        dead=("a",),
        inputs=(Checksum("t", 0, 6, 2**64 - 1),),
        again=(Checksum("t", 1, 2, 7),),
        skipped={"a": 1},
        read_ms=0.5,
        stages=(StageTimes(1.0, 2.0),),
        times=TimeReport({3: 1}, {5: 2**50}),
        errors={4: ErrorRows(-2, 2**64 - 1, "a text")},
        work={4: Work(1.5, 7)},
        readings=(PartitionReading("t", 0, 2**40, 1_700_000_000_000, -1),),
        border_us=2**50,
        unknown=(UnknownSchemas("a", "t", (0, 2), (5, 7)),),
    ),
    messages.StepAbandoned(step=7),
    messages.Failed(
        doing="fold_layer", fault=messages.WireFault(known=True, name="DataError", fields={"a": [1, None]})
    ),
    messages.LayerFrozen(version=VERSION),
    messages.LayerFolded(versions=(VERSION,), table_bytes={16: 5}, disk_bytes={"working": 6}, free_bytes=7),
    messages.Paused(step=7),
    messages.Resumed(step=7),
    messages.SlotBytesEstimated(total_bytes=1 << 40),
    messages.Given(slots=SLOTS, moved_bytes=8),
    messages.Taken(slots=SLOTS),
    messages.Released(),
    messages.Left(),
    messages.Stopped(step=8),
    messages.Beat(step=7, stage=1, cpu_ms=3, bytes_moved=4, waiting=False),
    messages.Hello(token="t", worker=1),
    messages.StageRows(serial=7, stage=0, channels=(0, 2), broken=True),
    messages.Pieces(number=CutNumber(3, 1), places=((16, 2**64 - 1), (17, 0)), slots=None),
    messages.Pieces(number=CutNumber(3, 1), places=(), slots=SLOTS),
)

WIRE = Path(__file__).parent / "samples" / f"wire_{WIRE_VERSION}.jsonl"
"""The head of each of these messages, as this wire version has it."""


def sent(frame: Frame) -> bytes:
    return b"".join(bytes(memoryview(part)) for part in encode(frame))


def received(data: bytes) -> Frame:
    prefix = Prefix.decode(data[: PREFIX.size], bytes_max=None)
    head = data[PREFIX.size : PREFIX.size + prefix.head_bytes]
    body = data[PREFIX.size + prefix.head_bytes :]
    assert len(body) == prefix.body_bytes
    return decode(head, pa.py_buffer(body))


def test_there_is_an_example_of_every_message() -> None:
    assert {type(message) for message in EVERY_MESSAGE} == set(messages.kinds())


def test_the_form_of_messages_belongs_to_the_wire_version() -> None:
    """Workers and coordinators of one wire version understand each other, whatever their releases are. What differs here needs WIRE_VERSION + 1.
    docs/extending.md says how to write the file."""
    assert [bytes(memoryview(encode(Frame(Term(3, 1), each))[0])) for each in EVERY_MESSAGE] == [
        PREFIX.pack(MAGIC, len(head), 0) + head for head in WIRE.read_bytes().splitlines()
    ]


@pytest.mark.parametrize("message", EVERY_MESSAGE, ids=lambda message: message.kind)
def test_every_message_arrives_as_it_was_sent(message: Message) -> None:
    frame = received(sent(Frame(Term(3, 1), message)))
    assert frame == Frame(Term(3, 1), message)
    assert type(frame.message) is type(message)


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_buffers_arrive_as_they_were_sent_and_at_aligned_places(buffers: list[bytes]) -> None:
    frame = received(sent(Frame(Term(0, 0), messages.Ping(), tuple(buffers))))
    assert [bytes(memoryview(buffer)) for buffer in frame.buffers] == buffers
    addresses = [buffer.address for buffer in frame.buffers if isinstance(buffer, pa.Buffer)]
    assert all((address - addresses[0]) % PADDING_BYTES == 0 for address in addresses)


@pytest.mark.parametrize(
    ("prefix", "bytes_max"),
    [
        (struct.pack(">4sIQ", b"HTTP", 10, 0), None),
        (struct.pack(">4sIQ", b"SW\x00\x63", 10, 0), None),
        (struct.pack(">4sIQ", MAGIC, HEAD_BYTES_MAX + 1, 0), None),
        (struct.pack(">4sIQ", MAGIC, 10, BODY_BYTES_MAX + 1), None),
        (struct.pack(">4sIQ", MAGIC, STRANGER_BYTES_MAX + 1, 0), STRANGER_BYTES_MAX),
        (struct.pack(">4sIQ", MAGIC, 10, STRANGER_BYTES_MAX + 1), STRANGER_BYTES_MAX),
    ],
)
def test_a_prefix_of_another_program_or_beyond_the_bounds_is_rejected(prefix: bytes, bytes_max: int | None) -> None:
    with pytest.raises(FrameError):
        Prefix.decode(prefix, bytes_max=bytes_max)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"{",
        b"[]",
        b'{"term":[0,0],"lengths":[]}',
        b'{"term":[0],"lengths":[],"kind":"ping","message":{}}',
        b'{"term":[0,0],"lengths":[],"kind":"no such kind","message":{}}',
        b'{"term":[0,0],"lengths":[],"kind":"ping","message":{"more":1}}',
        b'{"term":[0,0],"lengths":[],"kind":"stop","message":{}}',
        b'{"term":[0,0],"lengths":[1],"kind":"ping","message":{}}',
        b'{"term":[0,0],"lengths":[-64],"kind":"ping","message":{}}',
        b'{"term":[0,0],"lengths":["x"],"kind":"ping","message":{}}',
        b'{"term":[Infinity,0],"lengths":[],"kind":"ping","message":{}}',
        b'{"term":[0,0],"lengths":[1e999],"kind":"ping","message":{}}',
        b"[" * 60_000,
        b'{"term":[0,0],"lengths":[],"kind":"ping","message":[]}',
    ],
)
def test_a_head_that_is_not_ours_is_rejected(head: bytes) -> None:
    with pytest.raises(FrameError):
        decode(head, pa.py_buffer(b""))


def test_a_body_that_is_longer_than_its_buffers_is_rejected() -> None:
    with pytest.raises(FrameError, match="end at byte 0"):
        decode(b'{"term":[0,0],"lengths":[],"kind":"ping","message":{}}', pa.py_buffer(bytes(64)))
