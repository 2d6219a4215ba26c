"""How a worker is connected to the coordinator and to its peers."""

from __future__ import annotations

from dataclasses import dataclass

from engine.resident.transport import Connection, Events, Transport


@dataclass(frozen=True)
class WorkerConnections:
    """The transport of a worker with its events. `control`: the connection to the coordinator."""

    transport: Transport
    events: Events
    control: Connection
