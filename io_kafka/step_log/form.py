"""What all records of the step log have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

FORMAT_VERSION: Literal[4] = 4
"""It grows when a record changes its meaning. A reader refuses records of a newer format. It reads all records of formats 2 and 3,
and of format 1 what a full refresh needs (former_formats.py)."""

Natural = Annotated[int, Field(ge=0)]


class Part(BaseModel):
    """A part of a record. It is refused if it has a field too many, or one of another type."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copies the record like pydantic's method, but asserts that the fields exist. Pydantic accepts an unknown field silently."""
        unknown = (update or {}).keys() - type(self).model_fields.keys()
        assert not unknown, f"{type(self).__name__} has no {', '.join(sorted(unknown))}"
        return super().model_copy(update=update, deep=deep)


class PartWithLater(Part):
    """A part that has got more fields, `LATER`, since it was first written. Such a field is left out while it has its default. So a record that
    does not need it has the bytes that it had before, and a former release reads it."""

    LATER: ClassVar[frozenset[str]]

    @model_serializer(mode="wrap")
    def _without_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        plain: dict[str, Any] = handler(self)
        usual = {name for name in self.LATER if getattr(self, name) == type(self).model_fields[name].default}
        return {name: value for name, value in plain.items() if name not in usual}


class RecordBase(Part):
    """The fields of every record. `epoch` is that of the run that wrote it."""

    format: Literal[4] = FORMAT_VERSION
    epoch: Natural


class TopicIdentity(Part):
    """A topic as it was found. A topic with the same name and another `id` holds other messages."""

    topic: str
    id: str
    partitions: Natural
