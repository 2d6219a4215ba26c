"""Tokens -> the value that they make, for readers that go on after an error (tokens.py)."""

from __future__ import annotations

from collections.abc import Callable

from io_kafka.formats.jackson import Malformed, Members, Node
from io_kafka.formats.tokens import Token, Tokens

Container = list[Node] | Members
"""An array, or an object."""


def node_at(tokens: Tokens, of_text: Callable[[str], str], at_end: Callable[[Container], None]) -> Node:
    """The value that begins with the current token. `of_text`: what is kept of a string or of a member's name. `at_end`: called with each
    container when it is whole. Both may raise Malformed, and so stop at that token. No function calls itself here, so that depth cannot
    exhaust the stack."""
    root = _scalar_or_empty(tokens, of_text)
    open_: list[Container] = [root] if isinstance(root, list) else []
    while open_:
        container = open_[-1]
        if tokens.next() in (Token.END_OBJECT, Token.END_ARRAY):
            at_end(container)
            open_.pop()
            continue
        name = tokens.name or ""
        if tokens.current is Token.NAME:
            name = of_text(name)
            tokens.next()
        node = _scalar_or_empty(tokens, of_text)
        if isinstance(container, Members):
            container.append((name, node))
        else:
            container.append(node)
        if isinstance(node, list):
            open_.append(node)
    return root


def _scalar_or_empty(tokens: Tokens, of_text: Callable[[str], str]) -> Node:
    """The scalar that is the current token, or a container that is still empty and open."""
    match tokens.current:
        case Token.STRING:
            return of_text(tokens.text())
        case Token.NUMBER:
            return tokens.number()
        case Token.TRUE | Token.FALSE:
            return tokens.current is Token.TRUE
        case Token.NULL:
            return None
        case Token.START_OBJECT:
            return Members()
        case Token.START_ARRAY:
            return []
    raise Malformed("not JSON: a value is expected")
