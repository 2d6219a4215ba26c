"""from_json, to_json, get_json_object and json_tuple. The reading and the writing are those of messages (io_kafka/formats)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import as_lists
from base.text.columns import nulls_of
from base.text.patterns import Patterns
from engine.expressions.functions.function import Failure, row_function, value_text
from engine.expressions.functions.generic_function import GenericFunction
from engine.expressions.generic import Signature
from io_kafka.formats import permissive_json, render
from io_kafka.formats.jackson import Malformed, Members, Node
from io_kafka.formats.maps import with_repeated_keys

PATHS_KEPT_MAX = 1024  # of parsed paths: most views have one as a constant


def _from_json(signature: Signature, texts: pa.Array) -> pa.Array:
    """Constants: `fail` (mode FAILFAST), `corrupt`, the field that keeps a malformed text, or null, and perhaps `patterns`."""
    kind, corrupt = signature.result, signature.constants["corrupt"]
    fields = [kind.field(i) for i in range(kind.num_fields)] if pa.types.is_struct(kind) else []
    asked = kind if corrupt is None else pa.struct([field for field in fields if field.name != corrupt])
    values, malformed = permissive_json.read(texts, asked, _patterns(signature))
    _refuse_repeated(values)
    if signature.constants["fail"] and malformed.any():
        text = texts[int(np.flatnonzero(malformed)[0])].as_py()
        raise Failure("MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION", f"malformed JSON: {value_text(text)}")
    if corrupt is None:
        return values
    kept = pc.if_else(pa.array(malformed), texts, pa.scalar(None, pa.string()))
    columns = dict(zip([field.name for field in asked], values.flatten(), strict=True))
    columns[corrupt] = kept
    mask = pa.array(nulls_of(values)) if values.null_count else None
    return pa.StructArray.from_arrays([columns[field.name] for field in fields], fields=fields, mask=mask)


def _refuse_repeated(values: pa.Array) -> None:
    """Raises for an object with two members of one name that was read as a map. Spark makes a map of both, which no map of DuckDB's can hold."""
    kind = values.type
    if pa.types.is_map(kind):
        if with_repeated_keys(values).any():
            raise Failure("DUPLICATED_MAP_KEY", "an object with two members of one name is read as a map")
        _refuse_repeated(pc.list_flatten(as_lists(values)).field(1))
    elif pa.types.is_list(kind):
        _refuse_repeated(pc.list_flatten(values))
    elif pa.types.is_struct(kind):
        for field in values.flatten():
            _refuse_repeated(field)


def _to_json(signature: Signature, values: pa.Array) -> pa.Array:
    """Constants: `nulls`, whether fields that are null are written, and perhaps `patterns`."""
    return render.texts(values, signature.constants["nulls"], _patterns(signature))


def _patterns(signature: Signature) -> Patterns:
    """Returns the patterns of dates and timestamps. A circuit names none where there are none."""
    return Patterns(*signature.constants.get("patterns", ()))


_STEP = re.compile(r"\.\s*([^.\[]+)|\s*\['\s*([^']+)'\]|\[\s*([0-9]+)\]")
_WILDCARD = re.compile(r"\s*\.\*|\s*\['\*'\]|\[\*\]")
INDEX_MAX = 2**63 - 1


@lru_cache(maxsize=PATHS_KEPT_MAX)
def path_steps(path: str) -> tuple[str | int, ...] | None:
    """The names and indices of a path such as `$.a['b'][0]`; None if it is none. Blanks are ignored where Spark's parser
    ignores them. Raises ValueError for a path with a wildcard."""
    if not path.startswith("$"):
        return None
    at, steps = 1, list[str | int]()
    while path[at:].strip():
        if _WILDCARD.match(path, at):
            raise ValueError("a wildcard")
        step = _STEP.match(path, at)
        if step is None:
            return None
        name = step[1] if step[1] is not None else step[2]
        if name is None and int(step[3]) > INDEX_MAX:
            return None
        steps.append(name if name is not None else int(step[3]))
        at = step.end()
    return tuple(steps)


def _object(text: str, path: str) -> str | None:
    try:
        steps = path_steps(path)
    except ValueError as error:
        raise Failure(
            "UNSUPPORTED_PATH", f"the path {value_text(path)} has a wildcard, which is not supported"
        ) from error
    if steps is None:
        return None
    try:
        found = _find(permissive_json.first_value(text), steps)
        return None if found is None else permissive_json.shown_text(found[0])
    except Malformed:
        return None


def _find(node: Node, steps: tuple[str | int, ...]) -> tuple[Node] | None:
    """What is at the end of the path. Of several members of one name the first counts that is not null and has the rest of the path."""
    if not steps:
        return (node,)
    first, rest = steps[0], steps[1:]
    if isinstance(node, Members):
        candidates = (_find(value, rest) for name, value in node if name == first and value is not None)
        return next((found for found in candidates if found is not None), None)
    if isinstance(node, list) and isinstance(first, int) and first < len(node):
        return _find(cast("list[Node]", node)[first], rest)
    return None


def _tuple(signature: Signature, texts: pa.Array) -> pa.Array:
    """Constants: the names of the members. The result is a list of their values, as many as there are names."""
    names: list[str] = signature.constants
    return pa.array([_members(text, names) for text in texts.to_pylist()], signature.result)


def _members(text: str | None, names: list[str]) -> list[str | None]:
    values: dict[str, str | None] = dict.fromkeys(names)
    try:
        root = None if text is None else permissive_json.first_value(text)
        for name, value in root if isinstance(root, Members) else ():
            if name in values and value is not None:
                values[name] = permissive_json.shown_text(value)
    except Malformed:
        return [None] * len(names)
    return [values[name] for name in names]


def _root(text: str) -> Node | None:
    """The first value of a text; None if it is malformed."""
    try:
        return permissive_json.first_value(text)
    except Malformed:
        return None


def _array_length(text: str) -> int | None:
    """The number of elements of an array; null for any other text."""
    root = _root(text)
    return len(root) if isinstance(root, list) and not isinstance(root, Members) else None


def _object_keys(text: str) -> list[str] | None:
    """The names of an object's members; null for any other text."""
    root = _root(text)
    return [name for name, _ in root] if isinstance(root, Members) else None


FUNCTIONS = (
    row_function("spark_get_json_object", "VARCHAR VARCHAR", "VARCHAR", _object),
    row_function("spark_json_array_length", "VARCHAR", "INTEGER", _array_length),
    row_function("spark_json_object_keys", "VARCHAR", "VARCHAR[]", _object_keys),
)

GENERIC: Mapping[str, GenericFunction] = {"from_json": _from_json, "to_json": _to_json, "json_tuple": _tuple}
