"""Everything that travels between the coordinator and its workers, and between two workers, as one closed union.

    coordinator -> worker    Welcome, Refuse, Remove, Create, Fence, Open, Join, RunStep, Freeze, Fold, Read, Pause, Resume, Stop, Ping
    worker -> coordinator    Register, Holds, Removed, Created, Fenced, Opened, Joined, StepDone, StepAbandoned, Failed, Frozen, Folded,
                             Contents, Paused, Resumed, Stopped, Beat
    worker -> worker         Hello, Rows

A message is small and typed. Rows do not travel in it but in the buffers of its frame (frames.py), as Arrow IPC streams. Nothing here is
unpickled: a frame that does not have the form of one of these classes is rejected.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from base.options import OnError
from base.version import VersionId
from engine.run.sources import Checksum
from engine.run.tasks import StageTimes
from io_kafka.offsets import OffsetRange
from storage.identity import FoundDatabase, Identity


class Address(NamedTuple):
    host: str
    port: int


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


# Coordinator -> worker


class Welcome(_Message):
    """The sender of `Register` is `worker` from now on."""

    kind: Literal["welcome"] = "welcome"
    worker: int


class Refuse(_Message):
    """The registration is not accepted, or no worker is needed any more. The process must end."""

    kind: Literal["refuse"] = "refuse"
    reason: str


class Remove(_Message):
    """Removes databases from the worker's host that no run will ever open again: those of an older generation. Each is removed only if its
    identity is still the one that is named here; None stands for a database that cannot be read."""

    kind: Literal["remove"] = "remove"
    databases: tuple[tuple[int, Identity | None], ...]


class Create(_Message):
    """Creates the worker's database, which holds no step. If there is one already, nothing is changed: the fence looks whose it is."""

    kind: Literal["create"] = "create"


class Fence(_Message):
    kind: Literal["fence"] = "fence"


class Open(_Message):
    """`fenced`: the number that `Fenced` returned."""

    kind: Literal["open"] = "open"
    version: VersionId
    fenced: int


class Join(_Message):
    """The addresses of all workers of the term, by worker. A worker connects to those below it and waits for those above it."""

    kind: Literal["join"] = "join"
    members: dict[int, Address]


class RunStep(_Message):
    """See engine/run/tasks.py, StepInput. `serial` numbers the orders to run a step within a term: a step that failed on too large an input
    is run again, and messages of the two tries must not mix."""

    kind: Literal["run_step"] = "run_step"
    serial: int
    step: int
    ranges: tuple[OffsetRange, ...]
    on_error: dict[str, OnError]
    grown: frozenset[str]
    bytes_max: int | None


class Freeze(_Message):
    kind: Literal["freeze"] = "freeze"
    version: VersionId


class Fold(_Message):
    """Begins a fold, which runs beside the steps. `Folded` or `Failed` answers when it is over."""

    kind: Literal["fold"] = "fold"


class Read(_Message):
    """Reads what kept views hold as of the last complete checkpoint, beside the steps. `Contents` or `Failed` answers."""

    kind: Literal["read"] = "read"
    views: tuple[str, ...]


class Pause(_Message):
    kind: Literal["pause"] = "pause"


class Resume(_Message):
    kind: Literal["resume"] = "resume"


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
    path in which the host keeps the databases of the pipeline. `folder_name`: see storage/host_folder.py. If the folder cannot be used,
    `folder_fault` says why, and the other two are empty."""

    kind: Literal["register"] = "register"
    token: str
    host: str
    pid: int
    address: Address
    fingerprint: str
    folder: str
    folder_name: str
    folder_fault: str | None


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
    kind: Literal["opened"] = "opened"
    step: int


class Joined(_Message):
    kind: Literal["joined"] = "joined"


class StepDone(_Message):
    """The frame's buffers are the output of the nodes in `output` and then the dead letters of the sources in `dead`. `stages`: the times of
    each stage in order."""

    kind: Literal["step_done"] = "step_done"
    step: int
    output: tuple[int, ...]
    dead: tuple[str, ...]
    inputs: tuple[Checksum, ...]
    skipped: dict[str, int]
    read_ms: float
    stages: tuple[StageTimes, ...]


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
    """The versions that the database can open now, and its sizes in bytes: live state by table, and disk space by layer."""

    kind: Literal["folded"] = "folded"
    versions: tuple[VersionId, ...]
    table_bytes: dict[int, int]
    disk_bytes: dict[str, int]


class Contents(_Message):
    """The frame's buffers are the worker's rows of the views that were asked for, in that order."""

    kind: Literal["contents"] = "contents"
    version: VersionId


class Paused(_Message):
    kind: Literal["paused"] = "paused"
    step: int


class Resumed(_Message):
    kind: Literal["resumed"] = "resumed"
    step: int


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


Order = (
    Welcome
    | Refuse
    | Remove
    | Create
    | Fence
    | Open
    | Join
    | RunStep
    | Freeze
    | Fold
    | Read
    | Pause
    | Resume
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
    | Joined
    | StepDone
    | StepAbandoned
    | Failed
    | Frozen
    | Folded
    | Contents
    | Paused
    | Resumed
    | Stopped
    | Beat
)
PeerMessage = Hello | Rows
Message = Order | Answer | PeerMessage

ANY_MESSAGE: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="kind")])
"""Reads a message of any kind, and refuses everything else."""
