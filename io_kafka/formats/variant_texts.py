"""JSON -> variants: the reading of Spark's `parse_json`, and what `from_json` makes of a value whose type is VARIANT.

`parse_json` reads standard JSON alone, with Jackson's limits, and ignores what follows the value. Nearly all texts are read by Python's parser,
which is ten times as fast as the exact one. Both refuse an object with two members of one name, and half of a surrogate pair.
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any, cast

from base.text.variants import (
    Parts,
    double_number,
    elements_parts,
    flat,
    java_order,
    members_parts,
    number_text,
    quote,
    upper_escapes,
)
from io_kafka.formats.jackson import (
    DEPTH_MAX,
    NAME_CHARS_MAX,
    NOT_FINITE,
    NUMBER_DIGITS_MAX,
    Halved,
    Malformed,
    Members,
    Node,
    Number,
)
from io_kafka.formats.token_nodes import Container, node_at
from io_kafka.formats.tokens import STANDARD, Tokens

_BEGIN, _END = "\ue000", "\ue001"
"""Around a number that is no BIGINT, while Python's encoder writes it as a string. A text that has one is left to the exact reader."""
_MARK = re.compile("[\ue000\ue001]|\\\\u[eE]00[01]")
_LONG_NUMBER = re.compile("[0-9]{19}")
"""It may be no BIGINT. Python's own reading of integers takes all others, at half of the time."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_BEYOND_16_BITS = re.compile("[\U00010000-\U0010ffff]")


def variant_text(text: str) -> str:
    """The text of the variant (base/text/variants.py) that `parse_json` makes of a JSON text. Raises Malformed."""
    usual = _usual_text(text)
    return usual if usual is not None else variant_of_node(_exact_node(text))


def _usual_text(text: str) -> str | None:
    """None if only the exact reader says what the text holds."""
    if len(text) > DEPTH_MAX and text.count("{") + text.count("[") > DEPTH_MAX:
        return None
    plain = text.isascii() and "\\u" not in text
    if not plain and _MARK.search(text):
        return None
    careful = len(text) > NAME_CHARS_MAX or not (plain or ("\\u" not in text and not _BEYOND_16_BITS.search(text)))
    try:
        if careful:
            written = _ENCODED_CAREFULLY(_CAREFUL.decode(text))
        else:
            written = _ENCODED((_WITH_LONG_NUMBERS if _LONG_NUMBER.search(text) else _QUICK).decode(text))
    except (ValueError, RecursionError):
        return None
    if _BEGIN in written:
        written = written.replace(f'"{_BEGIN}', "").replace(f'{_END}"', "")
    if "\\u" in written:
        written = upper_escapes(written)
    return None if careful and _SURROGATE.search(written) else written


def _number(written: str) -> int | str:
    if len(written) > NUMBER_DIGITS_MAX:
        raise ValueError("a number whose digits have to be counted")
    text = number_text(written)
    return f"{_BEGIN}{text}{_END}" if "." in text or not text[-1].isdigit() or "e" in text else int(text)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("two members of one name")
    return members


def _members_in_order(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if any(len(name) > NAME_CHARS_MAX for name, _ in pairs):
        raise ValueError("a name that is too long")
    return _members(sorted(pairs, key=lambda pair: java_order(pair[0])))


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


_decoder = partial(json.JSONDecoder, parse_float=_number, parse_constant=_refuse_constant)
_QUICK = _decoder(object_pairs_hook=_members)
_WITH_LONG_NUMBERS = _decoder(object_pairs_hook=_members, parse_int=_number)
_CAREFUL = _decoder(object_pairs_hook=_members_in_order, parse_int=_number)
_encoder = partial(json.JSONEncoder, ensure_ascii=False, separators=(",", ":"), check_circular=False)
# Python orders by code points, which is Java's order of strings as long as no character takes two units.
_ENCODED, _ENCODED_CAREFULLY = _encoder(sort_keys=True).encode, _encoder().encode


def _exact_node(text: str) -> Node:
    tokens = Tokens(text, STANDARD)
    if tokens.next() is None:
        raise Malformed("empty")
    return variant_at(tokens)


def variant_at(tokens: Tokens) -> Node:
    """The value that begins with the current token. It raises Malformed at the token at which Spark's builder of variants does."""
    return node_at(tokens, _check_text, _check_members)


def _check_text(text: str) -> str:
    if isinstance(text, Halved) or (not text.isascii() and _SURROGATE.search(text)):
        raise Malformed("half of a surrogate pair, which no variant has")
    return text


def _check_members(container: Container) -> None:
    if isinstance(container, Members) and len(dict(container)) < len(container):
        names = [name for name, _ in container]
        twice = next(name for name in names if names.count(name) > 1)
        raise Malformed(f"an object with two members of the name {quote(twice)[:60]}, which no variant has")


def variant_of_node(node: Node) -> str:
    """The text of the variant. Raises Malformed for a value that no variant has."""
    return flat(node, _parts)


def _parts(node: Node) -> Parts:
    if isinstance(node, Members):
        _check_members(node)
        for name, _ in node:
            _check_text(name)
        return members_parts(node)
    if isinstance(node, list):
        return elements_parts(cast("list[Node]", node))
    if isinstance(node, Number):
        return double_number(NOT_FINITE[node.text]) if node.text in NOT_FINITE else number_text(node.text)
    if isinstance(node, str):
        return quote(_check_text(node))
    return "null" if node is None else "true" if node else "false"
