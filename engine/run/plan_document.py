"""Circuits and sources as JSON that any later version can read back: the parts of a plan document.

`value_of(text_of(x, kind), kind) == x` for circuits, functions in Python included, and for sources. Parsing is typed and
strict. A member that no field has is refused, because a newer version wrote it. A field with a default may be missing,
because an older version did not know it.

The JSON form in `engine/model/circuit.py` is another one. It says what a state belongs to, leaves out what changes no
row, and cannot be read back. No password is in a document: the address of a registry is written without it.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import cache, partial
from math import isfinite
from types import NoneType
from typing import Any, TypeVar, Union, get_args, get_type_hints

import pyarrow as pa
from cattrs import Converter
from cattrs.errors import BaseValidationError
from cattrs.gen import make_dict_unstructure_fn, override
from cattrs.strategies import configure_tagged_union, include_subclasses

from base import arrow_names
from engine.model.aggregates import AggregateCall
from engine.model.circuit import Node
from engine.model.node import NodeBase
from engine.model.ordered import Months
from io_kafka.formats.batches import TableFormat
from io_kafka.formats.encodings import Encoding
from io_kafka.formats.records import RecordFormat
from io_kafka.formats.spec import SourceFormat
from io_kafka.formats.text_limits import TextLimit
from io_kafka.offsets import TopicPartition
from io_kafka.registry.address import RegistryAddress

T = TypeVar("T")

TAG = "kind"
"""The member that names the class of a value of a union."""

_FORMATS: Any = SourceFormat | RecordFormat | TableFormat
_NODE: Any = Node
_GIVEN_ENCODINGS: Any = Union[tuple(each for each in get_args(Encoding) if each is not NoneType)]  # noqa: UP007 - of a tuple


class BadDocument(ValueError):
    """A text is not the form of a value that this version of Stepwell knows. It says why."""


def text_of(value: T, kind: type[T]) -> str:
    """The JSON of a dataclass whose parts are circuits, sources, and plain values."""
    return _text(_converter().unstructure(value, kind))


def value_of(text: str, kind: type[T]) -> T:
    """Raises BadDocument."""
    return _parse(text, kind)


def _text(plain: Any) -> str:
    return json.dumps(plain, sort_keys=True, separators=(",", ":"))


def _parse(text: str, kind: type[T]) -> T:
    try:
        plain = json.loads(text)
        if not isinstance(plain, dict):
            raise BadDocument("the text is not a JSON object")
        return _converter().structure(plain, kind)
    except BaseValidationError as error:
        raise BadDocument("; ".join(_reasons(error))) from error
    except json.JSONDecodeError as error:
        raise BadDocument(str(error)) from error


def _reasons(error: BaseException) -> list[str]:
    if isinstance(error, BaseExceptionGroup):
        return [reason for part in error.exceptions for reason in _reasons(part)]
    return [f"{type(error).__name__}: {error}"]


@cache
def _converter() -> Converter:
    made = Converter(forbid_extra_keys=True, unstruct_collection_overrides={frozenset: sorted})
    _as(made, pa.DataType, arrow_names.to_plain, arrow_names.of_plain)
    _as(made, pa.Schema, arrow_names.schema_to_plain, arrow_names.schema_of_plain)
    _as(made, bytes, lambda value: b64encode(value).decode(), lambda plain: b64decode(plain, validate=True))
    _as(made, str | float | bytes, _scalar_to_plain, _scalar_of_plain)
    _as(made, int | float | Months | None, _bound_to_plain, _bound_of_plain)
    for named_tuple in (TextLimit, TopicPartition):
        _as_list(made, named_tuple)
    made.register_unstructure_hook(
        RegistryAddress, make_dict_unstructure_fn(RegistryAddress, made, auth=override(omit=True))
    )
    tagged = partial(configure_tagged_union, tag_generator=lambda each: each.__name__, tag_name=TAG)
    include_subclasses(AggregateCall, made, union_strategy=tagged)
    tagged(_GIVEN_ENCODINGS, made)
    _as(
        made,
        Encoding,
        lambda value: None if value is None else made.unstructure(value, _GIVEN_ENCODINGS),
        lambda plain: None if plain is None else made.structure(plain, _GIVEN_ENCODINGS),
    )
    # A field that is any node. A hook for the class would be that of each kind of node too.
    made.register_unstructure_hook_func(lambda kind: kind is NodeBase, lambda node: made.unstructure(node, _NODE))
    made.register_structure_hook_func(lambda kind: kind is NodeBase, lambda plain, _: made.structure(plain, _NODE))
    for union in (_FORMATS, Node):
        tagged(union, made)
    return made


def _as(made: Converter, kind: Any, to_plain: Callable[[Any], Any], of_plain: Callable[[Any], Any]) -> None:
    """`kind`: a class, or a union, of which each value is written and read by these functions."""
    made.register_unstructure_hook(kind, to_plain)
    made.register_structure_hook(kind, lambda plain, _: of_plain(plain))


def _as_list(made: Converter, named_tuple: Any) -> None:
    """Names of types that are texts, as in our modules, are not resolved by cattrs for named tuples."""
    kinds = list(get_type_hints(named_tuple).values())
    _as(
        made,
        named_tuple,
        lambda value: [made.unstructure(part, kind) for part, kind in zip(value, kinds, strict=True)],
        lambda plain: named_tuple(*(made.structure(part, kind) for part, kind in zip(plain, kinds, strict=True))),
    )


def _bound_to_plain(bound: float | Months | None) -> Any:
    """A bound of a frame."""
    return {"months": bound.count} if isinstance(bound, Months) else _scalar_to_plain(bound)


def _bound_of_plain(plain: Any) -> Any:
    match plain:
        case {"months": int(count)}:
            return Months(count)
        case _:
            return _scalar_of_plain(plain)


def _scalar_to_plain(value: str | float | bytes | None) -> Any:
    """Bytes, and doubles that JSON lacks, are objects."""
    if isinstance(value, bytes):
        return {"bytes": b64encode(value).decode()}
    return {"float": repr(value)} if isinstance(value, float) and not isfinite(value) else value


def _scalar_of_plain(plain: Any) -> Any:
    match plain:
        case {"bytes": str(text)}:
            return b64decode(text, validate=True)
        case {"float": str(text)}:
            return float(text)
        case str() | int() | float() | None:
            return plain
        case _:
            raise ValueError(f"{plain!r} is no constant")
