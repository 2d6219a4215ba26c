"""What the steps run: another program, and what a transition leaves behind."""

from __future__ import annotations

from typing import NamedTuple

from base.options import OutputFormatName
from engine.resident.messages.message import Answer, BackgroundOrder, Order
from io_kafka.formats.encodings import SchemaIds
from io_kafka.formats.table import ids_of, name_of


class ProgramsPrefetched(Answer):
    digests: tuple[str, ...]


class PrefetchPrograms(BackgroundOrder[ProgramsPrefetched]):
    """Reads these documents of the topic in the background, so that their programs can be adopted without waiting for them."""

    topic: str
    digests: tuple[str, ...]


class RegisteredIds(NamedTuple):
    """The ids of the schemas of an output. The name of the format stands for the class that they have elsewhere."""

    format: OutputFormatName
    value: int
    key: int | None

    @classmethod
    def of(cls, ids: SchemaIds) -> RegisteredIds:
        return cls(name_of(ids), ids.value, ids.key)

    def ids(self) -> SchemaIds:
        return ids_of(self.format, self.value, self.key)


class ProgramAdopted(Answer):
    step: int


class AdoptProgram(Order[ProgramAdopted]):
    """The steps from `step` on run the program with this document, which is in `topic` (engine/run/program_document.py).

    `first`: the first step of the program, which is before `step` if the worker has opened a later version. `topics`: of the sources, by handle.
    `partitions`, `schema_ids`: of the outputs, by handle; see RunFacts. `revision`: the one that is in force in these steps.
    `readable`: by which document the views of a revision are read, of those that a version may have. `later`: documents of programs that follow.
    What no PrefetchPrograms has named before is read now."""

    topic: str
    digest: str
    step: int
    first: int
    topics: dict[str, tuple[str, ...]]
    partitions: dict[str, int]
    schema_ids: dict[str, RegisteredIds]
    revision: int
    readable: dict[int, str]
    later: tuple[str, ...]


class TablesCleared(Answer):
    """The worker has removed as much as one order allows. `is_done`: whether nothing is left."""

    is_done: bool


class ClearTables(Order[TablesCleared]):
    """Removes tables of the nodes with these numbers, but not many more bytes than `bytes_max`."""

    numbers: tuple[int, ...]
    bytes_max: int


class Size(NamedTuple):
    """The size of a difference on one worker: how many rows are new, and how many are gone. Each row counts as often as it occurs."""

    come: int
    gone: int


class DifferencesMeasured(Answer):
    """The sizes of the differences, in the order in which they were asked for."""

    sizes: tuple[Size, ...]


class MeasureDifferences(Order[DifferencesMeasured]):
    """Asks how large the differences are that the nodes with these numbers hold."""

    numbers: tuple[int, ...]
