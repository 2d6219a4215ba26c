"""What a definition says about files: their format, how they are arranged, and properties of the table that they make up.

Stepwell stores rows in its own state and publishes them to topics, and writes no files. So these words change no answer. They are accepted,
and `dry-run` notes each of them. What looks like a misspelled property of Stepwell's own is refused, because leaving it out would change what
is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from stepwell.errors import nearest_names

FILE_FORMATS = frozenset({"avro", "csv", "delta", "hudi", "iceberg", "json", "orc", "parquet", "text", "xml"})
"""Formats of files. A table of any other format is somewhere else, and a user who names one expects its rows there."""

_FOREIGN_PREFIXES = ("delta.", "hudi.", "iceberg.", "orc.", "parquet.", "pipelines.", "read.", "write.")
"""Properties of these groups belong to a format of files, or to another engine."""

SIMILARITY_MIN = 0.65
"""The least ratio of difflib between a property and one of ours for which it counts as misspelled. `kay` has 0.67 with `key`. The nearest of
those that people really use, `retention.ms`, has 0.64 with `partitions`."""

NO_FILES = "Stepwell writes no files"


def format_note(name: str) -> str:
    return f"format {name} has no effect: {NO_FILES}, it keeps the rows in its state"


def arranged_note(columns: Sequence[str], how: str) -> str:
    return f"{how} {', '.join(columns)} has no effect: {NO_FILES}"


def properties_note(names: Iterable[str]) -> tuple[str, ...]:
    """One note for all properties that mean nothing here. Empty if there are none."""
    listed = sorted(names)
    return (f"the table properties {', '.join(listed)} have no effect: {NO_FILES}",) if listed else ()


def meaningless(properties: Mapping[str, str], ours: Iterable[str]) -> frozenset[str]:
    """The properties of a table that mean nothing to Stepwell, and look like none of `ours`."""
    known = list(ours)
    return frozenset(name for name in properties if not _is_ours(name, known))


def _is_ours(name: str, ours: Sequence[str]) -> bool:
    lower = name.lower()
    if lower.startswith(_FOREIGN_PREFIXES):
        return False
    return lower.startswith(("kafka.", "stepwell.")) or bool(nearest_names(name, ours, SIMILARITY_MIN))
