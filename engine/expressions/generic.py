"""Functions that take any type: how an expression's SQL names one for the types at hand.

DuckDB's functions from Python have fixed types. So the name of such a function in SQL says what it does, the Arrow types of its arguments and of
its result, and its constants: `"spark:from_json:[[\"string\"],...]"(c0)`. `evaluate` makes the functions known that an SQL text names, before
it runs the text. The SQL therefore stays all that a circuit has to keep of an expression.

DuckDB does not distinguish upper and lower case in names. So a capital letter is written with `^` before it, and `^` as `^^`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa

from base.arrow_names import of_plain, to_plain
from engine.expressions.types import quote_name

_PREFIX = "spark:"
_NAMED = re.compile(r'"spark:((?:[^"]|"")*)"\(')
_CAPITAL = re.compile(r"[A-Z^]")
_WRITTEN = re.compile(r"\^(.)", re.DOTALL)


class Signature(NamedTuple):
    """One function for types: `constants` are plain values of JSON."""

    function: str
    arguments: tuple[pa.DataType, ...]
    result: pa.DataType
    constants: Any


def function_name(function: str, arguments: Sequence[pa.DataType], result: pa.DataType, constants: Any = None) -> str:
    """The quoted name of `function` for these types, for a call in SQL."""
    plain = [[to_plain(type_) for type_ in arguments], to_plain(result), constants]
    text = f"{_PREFIX}{function}:{json.dumps(plain, separators=(',', ':'), sort_keys=True, ensure_ascii=False)}"
    return quote_name(_CAPITAL.sub(lambda match: f"^{match[0].lower()}", text))


def functions_named(sql: str) -> list[tuple[str, Signature]]:
    """(name in DuckDB, signature) of every such function in the SQL."""
    if _PREFIX not in sql:
        return []
    return [(name, _signature(name)) for name in dict.fromkeys(_NAMED.findall(sql))]


@cache  # a signature for each function of the expressions in use
def _signature(name: str) -> Signature:
    text = _WRITTEN.sub(lambda match: match[1].upper(), name.replace('""', '"'))
    function, _, plain = text.partition(":")
    arguments, result, constants = json.loads(plain)
    return Signature(function, tuple(map(of_plain, arguments)), of_plain(result), constants)


_FOR_USERS = {"sequence_of_times": "sequence"}


def with_short_names(sql: str) -> str:
    """The SQL with the names of these functions as users know them, for an error."""

    def short(match: re.Match[str]) -> str:
        function = match[1].partition(":")[0]
        return f"{_FOR_USERS.get(function, function)}("

    return _NAMED.sub(short, sql) if _PREFIX in sql else sql


def duck_name(name: str) -> str:
    """The name under which DuckDB knows the function that an SQL text has between quotes."""
    return _PREFIX + name.replace('""', '"')
