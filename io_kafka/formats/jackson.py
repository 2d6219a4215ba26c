"""Reads one JSON text exactly as Spark's `from_json` does with its default options, or says why it is refused.

Spark reads with Jackson. Beyond the standard it takes single quotes, `\\'`, and the bare words NaN, Infinity, +INF,
-INF, +Infinity, -Infinity; it limits the depth, the length of a number and of a name; bytes that are not UTF-8 become
U+FFFD. No library for Python has that mixture, and Python's own `json` loses the spelling of numbers, on which much
depends. The reader is stricter than Spark in two ways: text after the object makes a message malformed, and so does a raw
control character within the base64 of a BINARY column, which Jackson happens to skip there. It is iterative, so
that depth cannot exhaust the stack.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple, TypeAlias, cast

from base.text.doubles import double_text

# Jackson's StreamReadConstraints, which Spark leaves as they are.
DEPTH_MAX = 1000
NUMBER_DIGITS_MAX = 1000
NAME_CHARS_MAX = 50_000


class Malformed(ValueError):
    """A message that `from_json` would refuse; the text is the reason a user sees."""


class Number(NamedTuple):
    """A number as it was spelt; `integral` means neither fraction nor exponent; words such as NaN are not
    integral."""

    text: str
    integral: bool


class Members(list[tuple[str, "Node"]]):
    """An object's members, in order, repeated names included."""


Node: TypeAlias = "bool | str | Number | list[Node] | Members | None"

NOT_FINITE = {
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "+Infinity": float("inf"),
    "+INF": float("inf"),
    "-Infinity": float("-inf"),
    "-INF": float("-inf"),
}

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORD = re.compile(r"true|false|null|NaN|Infinity|[+-]INF|[+-]Infinity")
_RUN = {'"': re.compile(r'[^"\\\x00-\x1f]*'), "'": re.compile(r"[^'\\\x00-\x1f]*")}
_HEX4 = re.compile(r"[0-9a-fA-F]{4}")
ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "/": "/", "\\": "\\", "'": "'"}
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
# Java's decoder replaces an encoded surrogate by one U+FFFD, Python's by one per byte.
_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\ufffd".encode()


def text_of(message: bytes) -> str:
    """The message as Java's decoder reads it: what is not UTF-8 becomes U+FFFD."""
    try:
        return message.decode()
    except UnicodeDecodeError:
        return _ENCODED_SURROGATE.sub(_REPLACEMENT, message).decode(errors="replace")


def parse(message: bytes) -> Node:
    """The one JSON value that `message` holds; raises Malformed."""
    text = text_of(message)
    usual = None if "\\u" in text else usual_node(text)
    if usual is not None:
        return usual[0]
    node, at = _value(text, _skip(text, 0))
    at = _skip(text, at)
    if at != len(text):
        raise Malformed(f"content after the end of the JSON value, at character {at}")
    return node


def usual_node(text: str) -> tuple[Node] | None:
    """The value that a text without any peculiarity holds, read by Python's parser, which is ten times as fast. None if only Jackson's own rules
    say what it holds: what Python refuses may be broken, or in Jackson's dialect. Escaped surrogates are read in another way than by these."""
    if len(text) > USUAL_CHARACTERS_MAX or (len(text) > DEPTH_MAX and text.count("{") + text.count("[") > DEPTH_MAX):
        return None
    try:
        return (_DECODER.decode(text),)
    except (ValueError, RecursionError):
        return None


def _number(text: str, integral: bool) -> Number:
    if len(text) > NUMBER_DIGITS_MAX:
        raise ValueError("a number whose digits have to be counted")
    return Number(text, integral)


def _refuse_constant(word: str) -> Node:
    raise ValueError(f"{word} is a number to one of Spark's functions, and none to the others")


_DECODER = json.JSONDecoder(
    object_pairs_hook=Members,
    parse_int=lambda text: _number(text, True),
    parse_float=lambda text: _number(text, False),
    parse_constant=_refuse_constant,
)
USUAL_CHARACTERS_MAX = NAME_CHARS_MAX
"""Longer texts could reach Jackson's limit for names."""


def parse_object(message: bytes) -> Members:
    node = parse(message)
    if not isinstance(node, Members):
        raise Malformed("not a JSON object")
    return node


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


def _value(text: str, at: int) -> tuple[Node, int]:
    root, at = _begin(text, at)
    if not isinstance(root, list):
        return root, at
    open_containers: list[list[Node] | Members] = [root]
    first = True
    while open_containers:
        container = open_containers[-1]
        at = _skip(text, at)
        if text.startswith("}" if isinstance(container, Members) else "]", at):
            open_containers.pop()
            at, first = at + 1, False
            continue
        if not first:
            at = _skip(text, _expect(text, at, ","))
        if isinstance(container, Members):
            name, at = _name(text, at)
            at = _skip(text, _expect(text, _skip(text, at), ":"))
            node, at = _begin(text, at)
            container.append((name, node))
        else:
            node, at = _begin(text, at)
            container.append(node)
        first = isinstance(node, list)
        if isinstance(node, list):
            open_containers.append(node)
            if len(open_containers) > DEPTH_MAX:
                raise Malformed(f"nested deeper than {DEPTH_MAX}")
    return root, at


def _expect(text: str, at: int, char: str) -> int:
    if not text.startswith(char, at):
        raise _refusal(text, at, f"'{char}' expected")
    return at + 1


def _refusal(text: str, at: int, what: str) -> Malformed:
    found = repr(text[at]) if at < len(text) else "the end"
    return Malformed(f"not JSON: {what} at character {at}, found {found}")


def _name(text: str, at: int) -> tuple[str, int]:
    quote = text[at : at + 1]
    if quote not in _RUN:
        raise _refusal(text, at, "a quoted name expected")
    name, at = _string(text, at + 1, quote)
    if len(name) > NAME_CHARS_MAX:
        raise Malformed(f"a name longer than {NAME_CHARS_MAX} characters")
    return name, at


def _begin(text: str, at: int) -> tuple[Node, int]:
    """A scalar, or a container that is still empty and open."""
    char = text[at : at + 1]
    if char in _RUN:
        return _string(text, at + 1, char)
    if char == "{":
        return Members(), at + 1
    if char == "[":
        return [], at + 1
    number = _NUMBER.match(text, at)
    if number:
        if sum(map(len, number.groups(""))) > NUMBER_DIGITS_MAX:
            raise Malformed(f"a number longer than {NUMBER_DIGITS_MAX} digits")
        return Number(number.group(), number.end(1) == number.end()), number.end()
    word = _WORD.match(text, at)
    if not word:
        raise _refusal(text, at, "a value expected")
    spelt = word.group()
    return (_WORDS[spelt] if spelt in _WORDS else Number(spelt, False)), word.end()


def _string(text: str, at: int, quote: str) -> tuple[str, int]:
    """The string whose content begins at `at`."""
    run = _RUN[quote]
    parts: list[str] = []
    while True:
        match = run.match(text, at)
        assert match is not None
        parts.append(match.group())
        at = match.end()
        char = text[at : at + 1]
        if char == quote:
            return without_lone_surrogates("".join(parts)), at + 1
        if char != "\\":
            raise _refusal(text, at, "a string goes on")
        escape = text[at + 1 : at + 2]
        if escape == "u":
            code = _HEX4.match(text, at + 2)
            if not code:
                raise _refusal(text, at, "\\u needs four hexadecimal digits")
            parts.append(chr(int(code.group(), 16)))
            at += 6
        elif escape in ESCAPES and escape:
            parts.append(ESCAPES[escape])
            at += 2
        else:
            raise _refusal(text, at, "an unknown escape")


def join_surrogates(text: str) -> str:
    """Joins surrogate pairs, and keeps lone surrogates."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


class Halved(str):
    """A text in which lone surrogates became '?'. `whole`: the text that has them, for a value that is written as JSON again."""

    whole: str


def without_lone_surrogates(text: str) -> str:
    """Joins surrogate pairs; a lone surrogate becomes '?', as when Java encodes it."""
    if text.isascii():
        return text
    units = text.encode("utf-16-le", "surrogatepass")
    try:
        return units.decode("utf-16-le")
    except UnicodeDecodeError:
        halved = Halved(units.decode("utf-16-le", "replace_surrogate"))
        halved.whole = units.decode("utf-16-le", "surrogatepass")
        return halved


_ESCAPED = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)", re.DOTALL)
"""A pair of surrogates, a surrogate without its other half (the group), or any other escape."""


def has_lone_surrogates(text: str) -> bool:
    """Whether a lone surrogate is escaped in a text of JSON."""
    return any(escape[1] for escape in _ESCAPED.finditer(text))


def _question_mark(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "?", error.start + 2


def _register() -> None:
    import codecs

    codecs.register_error("replace_surrogate", _question_mark)


_register()

_MUST_ESCAPE = re.compile(r'["\\\x00-\x1f\ud800-\udfff\U00010000-\U0010ffff]')
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def _escape(match: re.Match[str]) -> str:
    """Jackson's generator of bytes escapes control characters, what takes two UTF-16 units, and half of such a pair."""
    char = match[0]
    if char in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[char]
    units = char.encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _quote(text: str) -> str:
    return '"' + _MUST_ESCAPE.sub(_escape, text.whole if isinstance(text, Halved) else text) + '"'


def render_node(node: Node) -> str:
    """The value of a STRING column if the message has no string there: Jackson's rendering, with floats as doubles."""
    out: list[str] = []
    todo: list[Node | tuple[str]] = [node]
    while todo:
        item = todo.pop()
        if isinstance(item, Members):
            parts: list[Node | tuple[str]] = [("{",)]
            for index, (name, value) in enumerate(item):
                parts += [("," * (index > 0) + _quote(name) + ":",), value]
            todo += [("}",), *reversed(parts)]
        elif isinstance(item, list):
            parts = [("[",)]
            for index, element in enumerate(cast("list[Node]", item)):
                parts += [("," * (index > 0),), element]
            todo += [("]",), *reversed(parts)]
        elif isinstance(item, Number):
            out.append(_number_text(item))
        elif isinstance(item, tuple):
            out.append(item[0])
        elif isinstance(item, str):
            out.append(_quote(item))
        else:
            out.append("null" if item is None else "true" if item else "false")
    return "".join(out)


def _number_text(number: Number) -> str:
    if number.integral:
        return str(int(number.text))
    value = NOT_FINITE[number.text] if number.text in NOT_FINITE else float(number.text)
    text = double_text(value)
    return text if text[-1].isdigit() else f'"{text}"'
