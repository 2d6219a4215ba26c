"""Signs of life, faults, and the first words on a connection between two workers."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from engine.resident.messages.message import Answer, Notice, PeerMessage, Report


class WireFault(BaseModel):
    """A fault of a registered class (faults.py). `known` is False for an exception that nobody foresaw: a bug in Stepwell."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    known: bool
    name: str
    fields: dict[str, object]


class Failed(Answer):
    """What was asked for has failed. `doing` names it."""

    doing: str
    fault: WireFault


class Beat(Report):
    """A heartbeat. `cpu_ms`: what the worker's thread has used. `bytes_moved`: over all its connections. Both grow while it makes progress.
    `waiting`: whether it waits for peers or for orders."""

    step: int
    stage: int
    cpu_ms: int
    bytes_moved: int
    waiting: bool


class Ping(Notice):
    """Says that the coordinator lives. It has no answer."""


class Hello(PeerMessage):
    """The first message on a connection between two workers."""

    token: str
    worker: int
