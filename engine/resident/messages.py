"""Everything that travels between the coordinator and its workers, and between two workers, as one closed union.

    coordinator -> worker    Welcome, Refuse, Remove, Create, Fence, Open, Enter, Join, RunStep, Freeze, Fold, Read, Pause, Resume, Weigh,
                             GiveSlots, TakeSlots, ReleaseSlots, Leave, Stop, Ping
    worker -> coordinator    Register, Holds, Removed, Created, Fenced, Opened, Entered, Joined, StepDone, StepAbandoned, Failed, Frozen,
                             Folded, Contents, Paused, Resumed, Weighed, Given, Taken, Released, Left, Stopped, Beat
    worker -> worker         Hello, Rows, Pieces

A message is small and typed. Rows do not travel in it but in the buffers of its frame (frames.py), as Arrow IPC streams. Nothing here is
unpickled: a frame that does not have the form of one of these classes is rejected.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from base.options import OnError
from base.slots import SlotSet
from base.version import VersionId
from engine.model.placement import Placement
from engine.run.sources import Checksum
from engine.run.tasks import StageTimes
from io_kafka.offsets import OffsetRange
from storage.identity import FoundDatabase, Identity
from storage.transaction import CutNumber


class Address(NamedTuple):
    host: str
    port: int


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


# Coordinator -> worker


class Welcome(_Message):
    """The sender of `Register` is `worker` from now on. `birth` and `database`: the birth of the worker, and the uuid of its database."""

    kind: Literal["welcome"] = "welcome"
    worker: int
    birth: str
    database: str


class Refuse(_Message):
    """The registration is not accepted, or no worker is needed any more. The process must end."""

    kind: Literal["refuse"] = "refuse"
    reason: str


class Remove(_Message):
    """Removes databases from the worker's host that no run will ever open again. Each is named by its worker's number and birth, and is removed
    only if its identity is still the one that is named here; None stands for a database that cannot be read."""

    kind: Literal["remove"] = "remove"
    databases: tuple[tuple[int, str, Identity | None], ...]


class NewDatabase(NamedTuple):
    """A database that is to be created: without state, at version `base`, and owning these slots."""

    owned: SlotSet
    base: VersionId


class Create(_Message):
    """Creates the worker's database. If there is one already, nothing is changed: the fence looks whose it is."""

    kind: Literal["create"] = "create"
    new: NewDatabase


class Fence(_Message):
    kind: Literal["fence"] = "fence"


class Open(_Message):
    """`fenced`: the number that `Fenced` returned."""

    kind: Literal["open"] = "open"
    version: VersionId
    fenced: int


class Enter(_Message):
    """The database, which has no state, takes its place before `step`."""

    kind: Literal["enter"] = "enter"
    step: int


class Join(_Message):
    """The workers with their addresses, in the order in which they joined. A worker connects to those before it and waits for those behind it;
    connections that there are stay, and those to workers that are not named end."""

    kind: Literal["join"] = "join"
    members: tuple[tuple[int, Address], ...]
    placement: Placement


class Place(_Message):
    """The placement from now on. It has no answer, because each step names the placement that it has."""

    kind: Literal["place"] = "place"
    placement: Placement


class Hurry(_Message):
    """Something waits for the fold under way, so it does nothing more than it must. It has no answer."""

    kind: Literal["hurry"] = "hurry"


class RunStep(_Message):
    """See engine/run/tasks.py, StepInput. `serial` numbers the orders to run a step within a term: a step that failed on too large an input
    is run again, and messages of the two tries must not mix. `placement`: the number of that which the step has. `counted`: the nodes whose
    error rows are counted, and `released` the outputs that were held until the step before."""

    kind: Literal["run_step"] = "run_step"
    serial: int
    placement: int
    step: int
    ranges: tuple[OffsetRange, ...]
    on_error: dict[str, OnError]
    grown: frozenset[str]
    bytes_max: int | None
    counted: tuple[int, ...]
    released: tuple[str, ...]


class Freeze(_Message):
    """`in_error`: the views that have no answer in the version; None if they are those of the version before."""

    kind: Literal["freeze"] = "freeze"
    version: VersionId
    in_error: tuple[str, ...] | None


class Fold(_Message):
    """Begins a fold, which runs beside the steps. `Folded` or `Failed` answers when it is over. `may_rewrite`: whether the file may be rewritten
    after it, if much of it is free."""

    kind: Literal["fold"] = "fold"
    may_rewrite: bool


class Read(_Message):
    """Reads what kept views hold as of the last complete checkpoint, beside the steps. `Contents` or `Failed` answers."""

    kind: Literal["read"] = "read"
    views: tuple[str, ...]


class Pause(_Message):
    kind: Literal["pause"] = "pause"


class Resume(_Message):
    kind: Literal["resume"] = "resume"


class Weigh(_Message):
    """Estimates the bytes of each slot, beside the steps. The answer has the sum over `slots`, and those that have more than `heavy_bytes`."""

    kind: Literal["weigh"] = "weigh"
    slots: SlotSet
    heavy_bytes: int


class Copy(_Message):
    """Copies of the state of these slots go to worker `to`, beside the steps: `bytes_max` more, about, and at least one run. The first order for
    a worker pins all runs that are there."""

    kind: Literal["copy"] = "copy"
    slots: SlotSet
    to: int
    bytes_max: int


class Unstage(_Message):
    """Discards the copies that the worker has taken, and forgets those that it has sent."""

    kind: Literal["unstage"] = "unstage"


class GiveSlots(_Message):
    """Sends the state of some of these slots to worker `to`: of the first ones that have `bytes_max` together, and at least of one. The sender's
    state stays as it is."""

    kind: Literal["give_slots"] = "give_slots"
    number: CutNumber
    slots: SlotSet
    to: int
    bytes_max: int


class TakeSlots(_Message):
    """Takes over the slots that worker `giver` sends, with their state."""

    kind: Literal["take_slots"] = "take_slots"
    number: CutNumber
    giver: int


class ReleaseSlots(_Message):
    """Gives up slots that another worker has taken over."""

    kind: Literal["release_slots"] = "release_slots"
    number: CutNumber
    slots: SlotSet


class Leave(_Message):
    """The worker owns nothing any more, and no version needs its database. It removes that and ends."""

    kind: Literal["leave"] = "leave"


class Stop(_Message):
    """`step`: the first step that the worker must not run."""

    kind: Literal["stop"] = "stop"
    step: int


class Ping(_Message):
    """Says that the coordinator lives. It has no answer."""

    kind: Literal["ping"] = "ping"


# Worker -> coordinator


class Register(_Message):
    """`address` is that of the worker's listener for its peers. `fingerprint`: see fingerprint.py. `host` is for people, and `folder` is the
    path in which the host keeps the databases of the pipeline. `folder_name`: see storage/host_folder.py. `free_bytes`: on its disk. If the
    folder cannot be used, `folder_fault` says why, and the others are empty."""

    kind: Literal["register"] = "register"
    token: str
    host: str
    pid: int
    address: Address
    fingerprint: str
    folder: str
    folder_name: str
    folder_fault: str | None
    free_bytes: int


class Holds(_Message):
    """The databases in the folder of the sender's host. It follows `Register` at once, as a frame of its own: a thousand databases do not fit
    into the frame of a sender that has not shown the token yet."""

    kind: Literal["holds"] = "holds"
    databases: tuple[FoundDatabase, ...]


class Removed(_Message):
    kind: Literal["removed"] = "removed"
    workers: tuple[int, ...]


class Created(_Message):
    kind: Literal["created"] = "created"


class Fenced(_Message):
    kind: Literal["fenced"] = "fenced"
    versions: tuple[VersionId, ...]
    number: int


class Opened(_Message):
    """`owned`: the slots of which the database has the state, and `state_bytes` its size. `free_bytes`: on the disk."""

    kind: Literal["opened"] = "opened"
    step: int
    owned: SlotSet
    state_bytes: int
    free_bytes: int


class Entered(_Message):
    kind: Literal["entered"] = "entered"
    step: int


class Joined(_Message):
    kind: Literal["joined"] = "joined"


class StepDone(_Message):
    """The frame's buffers are the output of the nodes in `output` and then the dead letters of the sources in `dead`. `stages`: the times of
    each stage in order. `late`: the late rows that each node has left out. `watermarks`: those after the step in microseconds, by node.
    `errors`: (node, rows, checksum, example), what changed in the error rows of nodes (see ErrorRows)."""

    kind: Literal["step_done"] = "step_done"
    step: int
    output: tuple[int, ...]
    dead: tuple[str, ...]
    inputs: tuple[Checksum, ...]
    skipped: dict[str, int]
    read_ms: float
    stages: tuple[StageTimes, ...]
    late: tuple[tuple[int, int], ...] = ()
    watermarks: tuple[tuple[int, int], ...] = ()
    errors: tuple[tuple[int, int, int, str], ...] = ()


class StepAbandoned(_Message):
    """Another worker has failed in this step. The sender's state is unchanged."""

    kind: Literal["step_abandoned"] = "step_abandoned"
    step: int


class WireFault(_Message):
    """A fault of a registered class (faults.py). `known` is False for an exception that nobody foresaw: a mistake of Stepwell's own."""

    known: bool
    name: str
    fields: dict[str, object]


class Failed(_Message):
    """What was asked for has failed. `doing` names it."""

    kind: Literal["failed"] = "failed"
    doing: str
    fault: WireFault


class Frozen(_Message):
    kind: Literal["frozen"] = "frozen"
    version: VersionId


class Folded(_Message):
    """The versions that the database can open now, and its sizes in bytes: live state by table, and disk space by layer. `free_bytes`: on the
    disk."""

    kind: Literal["folded"] = "folded"
    versions: tuple[VersionId, ...]
    table_bytes: dict[int, int]
    disk_bytes: dict[str, int]
    free_bytes: int


class Contents(_Message):
    """The frame's buffers are the worker's rows of the views that were asked for, in that order. `owned`: the worker's slots in the version."""

    kind: Literal["contents"] = "contents"
    version: VersionId
    owned: SlotSet


class Paused(_Message):
    kind: Literal["paused"] = "paused"
    step: int


class Resumed(_Message):
    kind: Literal["resumed"] = "resumed"
    step: int


class Weighed(_Message):
    """`total_bytes`: of the slots that the order names. `heavy`: those that each have more than the order says."""

    kind: Literal["weighed"] = "weighed"
    total_bytes: int
    heavy: SlotSet


class Copied(_Message):
    """The other worker has so many bytes more. `is_done`: whether it has everything that was pinned."""

    kind: Literal["copied"] = "copied"
    moved_bytes: int
    is_done: bool


class Unstaged(_Message):
    kind: Literal["unstaged"] = "unstaged"


class Given(_Message):
    """The slots whose state was sent, and its bytes."""

    kind: Literal["given"] = "given"
    slots: SlotSet
    moved_bytes: int


class Taken(_Message):
    """The slots that were taken over."""

    kind: Literal["taken"] = "taken"
    slots: SlotSet


class Released(_Message):
    kind: Literal["released"] = "released"


class Left(_Message):
    kind: Literal["left"] = "left"


class Stopped(_Message):
    kind: Literal["stopped"] = "stopped"
    step: int


class Beat(_Message):
    """A heartbeat. `cpu_ms`: what the worker's thread has used. `bytes_moved`: over all its connections. Both grow while it makes progress.
    `waiting`: whether it waits for peers or for orders."""

    kind: Literal["beat"] = "beat"
    step: int
    stage: int
    cpu_ms: int
    bytes_moved: int
    waiting: bool


# Worker -> worker


class Hello(_Message):
    """The first message on a connection between two workers."""

    kind: Literal["hello"] = "hello"
    token: str
    worker: int


class Rows(_Message):
    """What `stage` of a step sends to one peer, exactly once and also if there are no rows. `serial` is that of the order to run the step. The
    frame's buffers are the rows of `channels`, which are positions in the plan's order of channels. `broken`: the stage has failed, so nobody
    may go on with the step."""

    kind: Literal["rows"] = "rows"
    serial: int
    stage: int
    channels: tuple[int, ...]
    broken: bool = False


class Pieces(_Message):
    """A part of the state that one cut moves. `places`: the table of each piece, and the first hash of its bucket; the frame's buffers are their
    rows. `slots`: set in the last frame of the cut, and only there. `copies`: in that frame, the keys of the copies that are part of the
    state, in hexadecimal digits."""

    kind: Literal["pieces"] = "pieces"
    number: CutNumber
    places: tuple[tuple[int, int], ...]
    slots: SlotSet | None
    copies: tuple[str, ...] = ()


class Copies(_Message):
    """Copies of parts of the state of these slots. `keys`: under which they are stored, in hexadecimal digits; the frame's buffers are their
    rows. `is_last`: whether they are the last ones of an order, which the receiver answers."""

    kind: Literal["copies"] = "copies"
    slots: SlotSet
    keys: tuple[str, ...]
    is_last: bool


class Staged(_Message):
    """The sender has stored the copies of one order; or it could not, and says why."""

    kind: Literal["staged"] = "staged"
    fault: WireFault | None


Order = (
    Welcome
    | Refuse
    | Remove
    | Create
    | Fence
    | Open
    | Enter
    | Join
    | Place
    | Hurry
    | RunStep
    | Freeze
    | Fold
    | Read
    | Pause
    | Resume
    | Weigh
    | Copy
    | Unstage
    | GiveSlots
    | TakeSlots
    | ReleaseSlots
    | Leave
    | Stop
    | Ping
)
Answer = (
    Register
    | Holds
    | Removed
    | Created
    | Fenced
    | Opened
    | Entered
    | Joined
    | StepDone
    | StepAbandoned
    | Failed
    | Frozen
    | Folded
    | Contents
    | Paused
    | Resumed
    | Weighed
    | Copied
    | Unstaged
    | Given
    | Taken
    | Released
    | Left
    | Stopped
    | Beat
)
PeerMessage = Hello | Rows | Pieces | Copies | Staged
Message = Order | Answer | PeerMessage

ANY_MESSAGE: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="kind")])
"""Reads a message of any kind, and refuses everything else."""


def question_of(message: Message) -> str | None:
    """The kind of order that a message answers; None if it answers none."""
    match message:
        case Failed(doing=doing):
            return doing
        case StepDone() | StepAbandoned():
            return "run_step"
        case Removed():
            return "remove"
        case Created():
            return "create"
        case Fenced():
            return "fence"
        case Opened():
            return "open"
        case Entered():
            return "enter"
        case Joined():
            return "join"
        case Frozen():
            return "freeze"
        case Folded():
            return "fold"
        case Contents():
            return "read"
        case Paused():
            return "pause"
        case Resumed():
            return "resume"
        case Weighed():
            return "weigh"
        case Copied():
            return "copy"
        case Unstaged():
            return "unstage"
        case Given():
            return "give_slots"
        case Taken():
            return "take_slots"
        case Released():
            return "release_slots"
        case Left():
            return "leave"
        case Stopped():
            return "stop"
        case _:
            return None
