"""Which field of a schema has a column: the one of its name, or else the only one whose name differs in upper and lower case alone.

Spark's own readers of Avro and Protobuf find fields so, and its SQL finds columns so. JSON without a schema is another matter: `from_json`
compares names with their case, and says nothing of a name that it does not find.
"""

from __future__ import annotations

from collections.abc import Iterable


class Ambiguous(ValueError):
    """Two fields have the name of a column, in other cases. Its text says so."""


def fields_of(columns: Iterable[str], fields: Iterable[str]) -> dict[str, str]:
    """The field of each column that has one. A field that has another column's own name is that column's. Raises Ambiguous."""
    columns, names = list(columns), set(fields)
    found = {column: column for column in columns if column in names}
    if len(found) == len(columns):
        return found
    alike: dict[str, list[str]] = {}
    for name in sorted(names - set(found)):
        alike.setdefault(name.lower(), []).append(name)
    for column in columns:
        others = alike.get(column.lower(), []) if column not in found else []
        if len(others) > 1:
            raise Ambiguous(f"column {column}: the fields {' and '.join(others)} have its name in another case")
        found.update((column, other) for other in others)
    return found
