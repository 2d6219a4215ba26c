"""The tokens of a JSON text one after the other, as Jackson's parser of characters gives them, also after an error.

Spark's `from_json` goes on after an error: the member that failed becomes null, and the parser is asked for its next token. What it then gives
depends on where the error left it. `Tokens` keeps the same state as Jackson's `ReaderBasedJsonParser` (version 2.18), for the part of it that
Spark's defaults reach. `jackson.parse` is for texts that have no error, and is quicker.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import NamedTuple

from io_kafka.formats.jackson import (
    DEPTH_MAX,
    ESCAPES,
    NAME_CHARS_MAX,
    NUMBER_DIGITS_MAX,
    Malformed,
    Number,
    join_surrogates,
    without_lone_surrogates,
)


class Token(Enum):
    """The kinds of tokens. The end of the text is None."""

    NAME = auto()
    START_OBJECT = auto()
    END_OBJECT = auto()
    START_ARRAY = auto()
    END_ARRAY = auto()
    STRING = auto()
    NUMBER = auto()
    TRUE = auto()
    FALSE = auto()
    NULL = auto()


_STARTS = {"{": Token.START_OBJECT, "[": Token.START_ARRAY}
_ENDS = {"}": (Token.END_OBJECT, True), "]": (Token.END_ARRAY, False)}
_WORDS = {"true": Token.TRUE, "false": Token.FALSE, "null": Token.NULL}
_NUMBER_WORDS = ("NaN", "Infinity", "+INF", "-INF", "+Infinity", "-Infinity")
_WORD_STARTS = frozenset("tfnNI+-")
_BLANK = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_IDENTIFIER = re.compile(r"[\w$]*")
_GOES_ON = re.compile(r"\w")  # Jackson lets any character below the digits end a word
_PLAIN = re.compile(r"[^\"'\\\x00-\x1f]*")
_HEX4 = re.compile(r"[0-9a-fA-F]{4}")


class Dialect(NamedTuple):
    """What a reader of Spark's takes beyond standard JSON, and whether lone surrogates stay in its texts."""

    single_quotes: bool
    number_words: bool
    control_characters: bool
    keeps_surrogates: bool


FROM_JSON = Dialect(True, True, False, False)
COPIED = Dialect(True, False, True, True)
"""The dialect of `get_json_object` and `json_tuple`, which copy a part of the text."""
STANDARD = Dialect(False, False, False, True)
"""The dialect of `parse_json`."""


class _Context:
    """An open container: the root, an object or an array."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.index = -1
        self.name: str | None = None


class Tokens:
    """The tokens of a text in JSON, as Jackson's parser gives them. `current` is the token that was read last. Methods raise Malformed where
    Jackson raises, and can be called again after that."""

    def __init__(self, text: str, dialect: Dialect = FROM_JSON) -> None:
        self._text = text
        self._dialect = dialect
        self._quotes = "\"'" if dialect.single_quotes else '"'
        self._words = (*_WORDS, *(_NUMBER_WORDS if dialect.number_words else ()))
        self._at = 0
        self._open = [_Context("root")]
        self._after_name: Token | None = None
        self._unread = False  # the current token is a string of which only the quote was read
        self._value: str | Number | None = None
        self.current: Token | None = None

    @property
    def name(self) -> str | None:
        """The name of the member that the current token belongs to. Within an array there is none."""
        if self.current in (Token.START_OBJECT, Token.START_ARRAY) and len(self._open) > 1:
            return self._open[-2].name
        return self._open[-1].name

    def next(self) -> Token | None:
        if self.current is Token.NAME:
            self.current, self._after_name = self._after_name, None
            if self.current in (Token.START_OBJECT, Token.START_ARRAY):
                self._enter(self.current)
            return self.current
        if self._unread:
            self.text()
        char = self._visible(end_allowed=len(self._open) == 1)
        if char == "":
            self.current = None
        elif char in _ENDS:
            self._leave(char)
        else:
            self._begin(char)
        return self.current

    def skip_children(self) -> None:
        """Reads to the end of the container that the current token begins, if it begins one."""
        if self.current not in (Token.START_OBJECT, Token.START_ARRAY):
            return
        depth = 1
        while depth:
            token = self.next()
            if token is None:
                return
            depth += (token in (Token.START_OBJECT, Token.START_ARRAY)) - (token in (Token.END_OBJECT, Token.END_ARRAY))

    def text(self) -> str:
        """The string that is the current token."""
        if self._unread:
            self._unread = False
            self._value = self._string('"')
        assert isinstance(self._value, str)
        return self._value

    def number(self) -> Number:
        """The number that is the current token."""
        assert isinstance(self._value, Number)
        return self._value

    def _begin(self, char: str) -> None:
        context = self._open[-1]
        context.index += 1
        if context.kind != "root" and context.index > 0:
            if char != ",":
                raise self._refusal(char, "a comma is expected")
            char = self._visible()
        if context.kind != "object":
            token = self._value_of(char)
            if token in (Token.START_OBJECT, Token.START_ARRAY):
                self._enter(token)
            self.current = token
            return
        if char not in self._quotes:
            raise self._refusal(char, "a quoted name is expected")
        context.name = self._string(char)
        if len(context.name) > NAME_CHARS_MAX:
            raise Malformed(f"a name longer than {NAME_CHARS_MAX} characters")
        self.current = Token.NAME
        if (colon := self._visible()) != ":":
            raise self._refusal(colon, "a colon is expected")
        self._after_name = self._value_of(self._visible())

    def _value_of(self, char: str) -> Token:
        if char == '"':
            self._unread = True
            return Token.STRING
        if char == "'" and self._dialect.single_quotes:
            self._value = self._string(char)
            return Token.STRING
        if char in _STARTS:
            return _STARTS[char]
        start = self._at - 1
        for word in self._words if char in _WORD_STARTS else ():
            if self._text.startswith(word, start) and not _GOES_ON.match(self._text, start + len(word)):
                self._at = start + len(word)
                if word in _WORDS:
                    return _WORDS[word]
                self._value = Number(word, False)
                return Token.NUMBER
        if char == "-" or (char.isascii() and char.isdigit()):
            return self._number(start)
        if char.isidentifier() or char == "$":
            self._at = _IDENTIFIER.match(self._text, self._at).end()  # type: ignore[union-attr]
        raise self._refusal(char, "a value is expected")

    def _number(self, start: int) -> Token:
        match = _NUMBER.match(self._text, start)
        if match is None:
            self._at = start + 2
            raise self._refusal(self._text[start : start + 2], "a digit is expected")
        self._at = match.end()
        following = self._text[self._at : self._at + 1]
        if match[0] in ("0", "-0") and following.isascii() and following.isdigit():
            raise self._refusal(following, "no digit after a leading zero is expected")
        if following and following in ".eE":
            self._at += 1
            raise self._refusal(following, "a digit is expected")
        if following not in ("", " ", "\t", "\n", "\r") and self._open[-1].kind == "root":
            raise self._refusal(following, "a blank is expected")
        if sum(map(len, match.groups(""))) > NUMBER_DIGITS_MAX:
            raise Malformed(f"a number longer than {NUMBER_DIGITS_MAX} digits")
        self._value = Number(match.group(), match.end(1) == match.end())
        return Token.NUMBER

    def _enter(self, token: Token) -> None:
        self._open.append(_Context("object" if token is Token.START_OBJECT else "array"))
        if len(self._open) - 1 > DEPTH_MAX:
            raise Malformed(f"nested deeper than {DEPTH_MAX}")

    def _leave(self, char: str) -> None:
        token, ends_object = _ENDS[char]
        if self._open[-1].kind != ("object" if ends_object else "array"):
            raise self._refusal(char, "another end is expected")
        self._open.pop()
        self.current = token

    def _visible(self, end_allowed: bool = False) -> str:
        """The next character that is not blank, which is read. It is empty at the end of the text."""
        self._at = _BLANK.match(self._text, self._at).end()  # type: ignore[union-attr]
        if self._at >= len(self._text):
            if end_allowed:
                return ""
            raise self._refusal("", "something is expected")
        char = self._text[self._at]
        self._at += 1
        if char < " ":
            raise self._refusal(char, "a blank is expected")
        return char

    def _string(self, quote: str) -> str:
        """The rest of a string whose quote was read."""
        parts: list[str] = []
        while True:
            run = _PLAIN.match(self._text, self._at)
            assert run is not None
            parts.append(run.group())
            self._at = run.end() + 1
            char = self._text[run.end() : self._at]
            if char == quote:
                text = "".join(parts)
                return join_surrogates(text) if self._dialect.keeps_surrogates else without_lone_surrogates(text)
            if char == "\\":
                parts.append(self._escape())
            elif char and (char in "'\"" or self._dialect.control_characters):
                parts.append(char)
            else:
                self._at = min(self._at, len(self._text))
                raise self._refusal(char, "a string goes on")

    def _escape(self) -> str:
        char = self._text[self._at : self._at + 1]
        self._at = min(self._at + 1, len(self._text))
        if char == "u":
            code = _HEX4.match(self._text, self._at)
            if code is None:
                raise self._refusal("\\u", "four hexadecimal digits are expected")
            self._at += 4
            return chr(int(code.group(), 16))
        if char not in ESCAPES or not char or (char == "'" and not self._dialect.single_quotes):
            raise self._refusal(f"\\{char}", "an escape is expected")
        return ESCAPES[char]

    def _refusal(self, found: str, what: str) -> Malformed:
        return Malformed(f"not JSON: {what} at character {self._at}, found {found!r}")
