"""What a task needs to become a worker: what the coordinator has made of it, and how it is connected."""

from __future__ import annotations

from dataclasses import dataclass

from base.term import Term
from engine.resident.transport import Connection, Events, Transport
from engine.run.tasks import TaskSetup
from storage.host_folder import HostFolder
from storage.identity import Identity


@dataclass(frozen=True, kw_only=True)
class Appointment:
    """What the coordinator has made of a task. `folder`: that of the host, with the databases of all its workers."""

    setup: TaskSetup
    term: Term
    token: str
    identity: Identity
    birth: str
    folder: HostFolder


@dataclass(frozen=True)
class Lines:
    """How a worker is connected. `control`: to the coordinator."""

    transport: Transport
    events: Events
    control: Connection
