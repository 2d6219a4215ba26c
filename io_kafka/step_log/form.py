"""What all records of the step log have in common."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

FORMAT_VERSION: Literal[4] = 4
"""It grows when a record changes its meaning. A reader refuses records of a newer format. It reads all records of formats 2 and 3,
and of format 1 what a full refresh needs (former_records.py)."""

Natural = Annotated[int, Field(ge=0)]


class Part(BaseModel):
    """A part of a record. It is refused if it has a field too many, or one of another type."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class RecordBase(Part):
    """The fields of every record. `epoch` is that of the run that wrote it."""

    format: Literal[4] = FORMAT_VERSION
    epoch: Natural


class TopicIdentity(Part):
    """A topic as it was found. A topic with the same name and another `id` holds other messages."""

    topic: str
    id: str
    partitions: Natural
