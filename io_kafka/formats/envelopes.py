"""Messages around a row: the change logs of known tools, and any object that has the table's columns further within.

`from_json` finds none of the table's columns in such a message, so its row would be nothing but NULL, or NULL beside what the message says of
itself. It is malformed instead, and the reason says where the columns are and how the message can be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

from io_kafka.formats.jackson import Members, Node
from io_kafka.formats.names import Ambiguous, fields_of

WRITE_CHANGELOG = "these are Debezium's changes: write 'mode' = 'changelog'"
DECLARE_IT = "declare the message as it is, with the row as a STRUCT, and take the row out in a view (docs/formats.md, Changes of other tools)"

DELETED_FLAG = "__deleted"
"""The field with which ExtractNewRecordState says that a row was deleted (flattened.py)."""

NAMES_SHOWN = 10
DEPTH_MAX = 3
"""To this depth the columns are looked for in objects within objects. No tool has its row deeper."""


@dataclass(frozen=True)
class Envelope:
    """A kind of envelope in which a program sends changes. `all_of`, `any_of`: the names by which it is known; `mark` is the rarest of them.
    `about`: what it says of a change beside its row. A table of rows may have columns of these names too."""

    mark: str
    all_of: frozenset[str]
    any_of: frozenset[str]
    about: frozenset[str]
    what_to_do: str

    def is_around(self, names: Set[str]) -> bool:
        return names >= self.all_of and bool(names & self.any_of)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DEBEZIUM = Envelope(
    "op",
    _names("op"),
    _names("before after"),
    _names("op source transaction ts_ms ts_us ts_ns"),
    WRITE_CHANGELOG,
)
_OF_MYSQL = Envelope(
    "database",
    _names("database table type"),
    _names("data"),
    _names(
        "database table type ts es id xid xoffset commit commitTs buildTs position gtid query server_id thread_id schema_id tableID "
        "schemaVersion version isDdl sql sqlType mysqlType pkNames primary_key primary_key_columns"
    ),
    f"these are changes as Maxwell, Canal and TiCDC write them: {DECLARE_IT}",
)
_GOLDEN_GATE = Envelope(
    "op_type",
    _names("table op_type"),
    _names("before after"),
    _names("table op_type op_ts current_ts pos csn xid txind primary_keys tokens"),
    f"these are GoldenGate's changes: {DECLARE_IT}",
)
_CLOUD_EVENT = Envelope(
    "specversion",
    _names("specversion id source type"),
    _names("data data_base64"),
    _names("specversion id source type time subject datacontenttype dataschema"),
    f"this is a CloudEvent: {DECLARE_IT}",
)
_CHANGE_STREAM = Envelope(
    "operationType",
    _names("operationType ns"),
    _names("fullDocument documentKey"),
    _names("_id operationType ns clusterTime wallTime collectionUUID lsid txnNumber"),
    f"these are changes of MongoDB's own connector: set publish.full.document.only=true there, or {DECLARE_IT}",
)
ENVELOPES = (_DEBEZIUM, _OF_MYSQL, _GOLDEN_GATE, _CLOUD_EVENT, _CHANGE_STREAM)

ABOUT: frozenset[str] = frozenset().union(*(each.about for each in ENVELOPES))


def envelope_of(names: Set[str]) -> Envelope | None:
    return next((each for each in ENVELOPES if each.is_around(names)), None)


def why_no_row(names: Sequence[str], columns: Set[str], *, any_case: bool) -> str | None:
    """Why a message or a schema with fields of these names is no row of these columns; None if it may be one. A table whose columns are all of
    the message's record reads any. `any_case`: whether names in another case are found (names.py)."""
    if not names or not columns or _only_about_itself(names):
        return None
    found = _columns_among(names, columns, any_case)
    envelope = envelope_of(set(names))
    if found and (envelope is None or not (found <= envelope.about and columns - envelope.about)):
        return None
    what_to_do = f"; {envelope.what_to_do}" if envelope is not None else "" if any_case else _other_case(names, columns)
    shown = ", ".join(names[:NAMES_SHOWN])
    return f"has {shown}, and none of the table's columns{what_to_do}"


def _only_about_itself(names: Sequence[str]) -> bool:
    """Debezium's connector for MongoDB writes a deletion as a row (flattened.py) that has nothing but such fields. Its key says which row."""
    return DELETED_FLAG in names and all(name.startswith("__") for name in names)


def _columns_among(names: Sequence[str], columns: Set[str], any_case: bool) -> Set[str]:
    if not any_case:
        return columns & set(names)
    try:
        return {*fields_of(columns, names)}
    except Ambiguous:
        return columns  # whoever reads the fields says so


def _other_case(names: Sequence[str], columns: Set[str]) -> str:
    lower = {column.lower() for column in columns}
    alike = [name for name in names if name.lower() in lower]
    return f"; names have the message's case: declare {', '.join(alike[:NAMES_SHOWN])}" if alike else ""


def why_no_object(message: Members, columns: Set[str]) -> str | None:
    """Returns why a message without a schema is no row of these columns; None if it may be one. See `why_no_row`. An object without any of the
    columns is a row of NULL, as `from_json` has it, unless it is known to be no row."""
    names = [name for name, _ in message]
    reason = why_no_row(names, columns, any_case=False)
    if reason is None or envelope_of(set(names)) is not None:
        return reason
    place = _place_of_columns(message, columns)
    if place is not None:
        return f"{reason}, which are in its {place}: {DECLARE_IT}"
    return reason if _other_case(names, columns) else None


def _place_of_columns(message: Members, columns: Set[str]) -> str | None:
    """The path of the object within that has the most of the columns, and at least half of them."""
    counts = [(len(columns & {name for name, _ in inner}), path) for path, inner in _objects(message, "", DEPTH_MAX)]
    most, place = max(counts, key=lambda each: each[0], default=(0, ""))
    return place if 2 * most >= len(columns) else None


def _objects(node: Node, path: str, depth_left: int) -> Iterator[tuple[str, Members]]:
    """The objects within, those outside first. Of an array the first item counts."""
    if depth_left == 0 or not isinstance(node, list):
        return
    inner = node if isinstance(node, Members) else [("", item) for item in node[:1] if not isinstance(item, tuple)]
    found = [(f"{path}.{name}".strip(".") if name else f"{path}[]", value) for name, value in inner]
    yield from ((place, value) for place, value in found if isinstance(value, Members))
    for place, value in found:
        yield from _objects(value, place, depth_left - 1)


MARKS = f'"({"|".join(each.mark for each in ENVELOPES)})"'
"""A pattern that is found in each message of a known tool."""


@lru_cache(maxsize=256)  # one for each table in use
def names_anywhere(columns: frozenset[str]) -> str:
    """A pattern, for bytes, that is found in each message that has one of the columns at any depth, in any case."""
    return f'(?i)"({"|".join(sorted(map(_literal, columns)))})"'


def _literal(name: str) -> str:
    return "".join(chr(byte) if chr(byte).isalnum() and byte < 0x80 else f"\\x{byte:02x}" for byte in name.encode())
