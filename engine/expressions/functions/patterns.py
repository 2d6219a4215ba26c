"""Regular expressions and LIKE with Java's meaning, on Python's engine, which backtracks as Java's does.

`translate` rewrites a Java pattern where the two languages differ: in Java, `.` and `$` know more line ends, `\\d \\w \\s` and
case-insensitivity are ASCII, and `\\z \\Z \\h \\R \\Q..\\E` and POSIX classes are written differently. It refuses what has no equal in Python:
set operations within brackets, `\\G`, `\\X`, other Unicode properties. Literal patterns are refused at dry-run.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from engine.expressions.functions.function import Failure, row_function

PATTERNS_KEPT_MAX = 256  # compiled patterns of a process; a query has few, but a column of patterns may have many

_LINE_ENDS = r"\n\r\x85\u2028\u2029"
_AT_END = r"(?=(?:\r\n|(?<!\r)\n|[\r\x85\u2028\u2029])?\Z)"
_ESCAPES = {
    "d": "0-9", "w": "a-zA-Z0-9_", "s": r" \t\n\x0b\f\r", "h": r" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000",
    "v": r"\n\x0b\f\r\x85\u2028\u2029",
}  # fmt: skip
_POSIX = {
    "Lower": "a-z", "Upper": "A-Z", "ASCII": r"\x00-\x7f", "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~", "Graph": "!-~", "Print": " -~", "Blank": r" \t", "Cntrl": r"\x00-\x1f\x7f", "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0b\f\r",
}  # fmt: skip
_CONTROLS = {"t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f", "a": r"\x07", "e": r"\x1b"}


class UnsupportedPattern(Failure):
    """The pattern may be valid in Java, but has no equal in Python."""

    def __init__(self, pattern: str, why: str) -> None:
        super().__init__("UNSUPPORTED_PATTERN", f"regular expression {pattern!r}: {why}")


class _Translation:
    """One pass over a Java pattern. `position` is the position after the text that has been read."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.position = 0
        self.flags = 0

    def refuse(self, why: str) -> UnsupportedPattern:
        return UnsupportedPattern(self.pattern, why)

    def take(self, count: int = 1) -> str:
        taken = self.pattern[self.position : self.position + count]
        if len(taken) < count:
            raise self.refuse("it ends too early")
        self.position += count
        return taken

    def run(self) -> str:
        if flags := re.match(r"\(\?([is]+)\)", self.pattern):
            self.flags = (re.IGNORECASE if "i" in flags[1] else 0) | (re.DOTALL if "s" in flags[1] else 0)
            self.position = flags.end()
        out: list[str] = []
        while self.position < len(self.pattern):
            out.append(self._item(self.take()))
        return "".join(out)

    def _item(self, c: str) -> str:
        if c == "\\":
            return self._escape(in_class=False)
        if c == "[":
            return self._class()
        if c == ".":
            return "." if self.flags & re.DOTALL else f"[^{_LINE_ENDS}]"
        if c == "$":
            return _AT_END
        if c == "(" and self.pattern.startswith("?", self.position):
            return self._group()
        return c

    def _group(self) -> str:
        for prefix in ("?:", "?=", "?!", "?<=", "?<!", "?>"):
            if self.pattern.startswith(prefix, self.position):
                return "(" + self.take(len(prefix))
        if name := re.compile(r"\?<([a-zA-Z][a-zA-Z0-9]*)>").match(self.pattern, self.position):
            self.position = name.end()
            return f"(?P<{name[1]}>"
        raise self.refuse("flags inside a pattern other than (?i) and (?s) at its start are not supported")

    def _escape(self, in_class: bool) -> str:
        """The translation of what follows a backslash. Inside brackets, classes are written without brackets of their own."""
        c = self.take()
        if c in _ESCAPES:
            return _ESCAPES[c] if in_class else f"[{_ESCAPES[c]}]"
        if c.lower() in _ESCAPES and c.isupper():
            if in_class:
                raise self.refuse(f"\\{c} within brackets is not supported")
            return f"[^{_ESCAPES[c.lower()]}]"
        if c in _CONTROLS:
            return _CONTROLS[c]
        if c in "pP":
            return self._property(c == "P", in_class)
        if c == "x" and not self.pattern.startswith("{", self.position):
            return f"\\x{self.take(2)}"
        if c == "u":
            return f"\\u{self.take(4)}"
        if c == "Q":
            end = self.pattern.find("\\E", self.position)
            end = len(self.pattern) if end < 0 else end
            quoted = self.pattern[self.position : end]
            self.position = min(end + 2, len(self.pattern))
            return re.escape(quoted)
        if in_class:
            if c.isalnum():
                raise self.refuse(f"\\{c} within brackets is not supported")
            return "\\" + c
        if c in "123456789":
            return f"(?:\\{c})"
        simple = {
            "A": r"\A",
            "z": r"\Z",
            "Z": _AT_END,
            "b": r"\b",
            "B": r"\B",
            "R": r"(?:\r\n|[\n\x0b\f\r\x85\u2028\u2029])",
        }
        if c in simple:
            return simple[c]
        if c.isalnum():
            raise self.refuse(f"\\{c} is not supported")
        return re.escape(c)

    def _property(self, negated: bool, in_class: bool) -> str:
        if not self.pattern.startswith("{", self.position):
            raise self.refuse("a Unicode property is not supported: write the ranges of characters")
        end = self.pattern.find("}", self.position)
        name = self.pattern[self.position + 1 : end]
        if end < 0 or name not in _POSIX or (negated and in_class):
            raise self.refuse(f"property {name} is not supported: write the ranges of characters")
        self.position = end + 1
        if in_class:
            return _POSIX[name]
        return f"[{'^' if negated else ''}{_POSIX[name]}]"

    def _class(self) -> str:
        out = ["["]
        if self.pattern.startswith("^", self.position):
            out.append(self.take())
        first = True
        while True:
            c = self.take()
            if c == "]" and not first:
                return "".join(out) + "]"
            if c == "[" or (c == "&" and self.pattern.startswith("&", self.position)):
                raise self.refuse("sets of sets within brackets are not supported")
            if c == "]":
                raise self.refuse("a ] right after [ is not supported: write \\]")
            out.append(self._escape(in_class=True) if c == "\\" else "\\" + c if c in "|~&" else c)
            first = False


@lru_cache(PATTERNS_KEPT_MAX)
def translate(pattern: str) -> re.Pattern[str]:
    """The Python pattern that matches as the Java pattern does. Raises `UnsupportedPattern`."""
    translation = _Translation(pattern)
    text = translation.run()
    try:
        return re.compile(text, re.ASCII | translation.flags)
    except re.error as error:
        raise UnsupportedPattern(pattern, str(error)) from error


@lru_cache(PATTERNS_KEPT_MAX)
def replacement(text: str) -> Callable[[re.Match[str]], str]:
    """A function that expands Java's replacement text: `$1` is a group, and a backslash quotes. Raises `UnsupportedPattern`."""
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        c = text[position]
        position += 1
        if c == "\\":
            if position == len(text):
                raise UnsupportedPattern(text, "the replacement ends in a backslash")
            parts.append(text[position])
            position += 1
        elif c == "$":
            if position == len(text) or text[position] not in "0123456789":
                raise UnsupportedPattern(text, "a $ in a replacement names a group by one digit; quote it as \\$")
            parts.append(int(text[position]))
            position += 1
            if position < len(text) and text[position] in "0123456789":
                raise UnsupportedPattern(text, "a group number of two digits is not supported")
        else:
            parts.append(c)

    def expand(match: re.Match[str]) -> str:
        return "".join(part if isinstance(part, str) else (match[part] or "") for part in parts)

    return expand


def _group(match: re.Match[str] | None, group: int, pattern: re.Pattern[str]) -> str:
    if not 0 <= group <= pattern.groups:
        raise Failure("INVALID_PARAMETER_VALUE.REGEX_GROUP_INDEX", f"group {group} of {pattern.groups}")
    return "" if match is None else (match[group] or "")


def _extract(text: str, pattern: str, group: int) -> str:
    compiled = translate(pattern)
    match = compiled.search(text)
    return "" if match is None else _group(match, group, compiled)


def _extract_all(text: str, pattern: str, group: int) -> list[str]:
    compiled = translate(pattern)
    return [_group(match, group, compiled) for match in compiled.finditer(text)]


def _instr(text: str, pattern: str, group: int) -> int:
    """Where the first match begins, from 1, or 0. The number of a group has no effect, as in Spark."""
    match = translate(pattern).search(text)
    return 0 if match is None else match.start() + 1


def _replace(text: str, pattern: str, by: str, position: int) -> str:
    if position < 1:
        raise Failure("DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE", "the position begins at 1")
    if position - 1 >= len(text) and position > 1:
        return text
    expand = replacement(by)
    compiled = translate(pattern)
    out, last = [], 0
    for match in compiled.finditer(text, position - 1):
        out += [text[last : match.start()], expand(match)]
        last = match.end()
    return "".join(out) + text[last:]


def split(text: str, pattern: str, limit: int) -> list[str]:
    """Java's split, with a limit if it is positive. Empty pieces at the end stay."""
    if not text:
        return [""]
    compiled = translate(pattern)
    pieces: list[str] = []
    last = 0
    for match in compiled.finditer(text):
        if 0 < limit <= len(pieces) + 1:
            break
        if match.end() == 0 or (match.start() == match.end() == len(text)):
            continue  # an empty match at the start or at the end makes no piece
        pieces.append(text[last : match.start()])
        last = match.end()
    return [*pieces, text[last:]]


@lru_cache(PATTERNS_KEPT_MAX)
def like_pattern(pattern: str, escape: str) -> re.Pattern[str]:
    """The regular expression that is equal to a LIKE pattern."""
    out: list[str] = []
    position = 0
    while position < len(pattern):
        c = pattern[position]
        position += 1
        if c == escape:
            if position == len(pattern):
                raise Failure("INVALID_FORMAT.ESC_AT_THE_END", f"LIKE pattern {pattern!r} ends in its escape character")
            if pattern[position] not in ("_", "%", escape):
                raise Failure(
                    "INVALID_FORMAT.ESC_IN_THE_MIDDLE", f"LIKE pattern {pattern!r} escapes an ordinary character"
                )
            out.append(re.escape(pattern[position]))
            position += 1
        else:
            out.append("." if c == "_" else ".*" if c == "%" else re.escape(c))
    return re.compile("".join(out), re.DOTALL)


FUNCTIONS = (
    row_function(
        "spark_rlike", "VARCHAR VARCHAR", "BOOLEAN", lambda text, pattern: translate(pattern).search(text) is not None
    ),
    row_function(
        "spark_like",
        "VARCHAR VARCHAR VARCHAR",
        "BOOLEAN",
        lambda text, pattern, escape: like_pattern(pattern, escape).fullmatch(text) is not None,
    ),
    row_function("spark_regexp_extract", "VARCHAR VARCHAR INTEGER", "VARCHAR", _extract),
    row_function("spark_regexp_extract_all", "VARCHAR VARCHAR INTEGER", "VARCHAR[]", _extract_all),
    row_function("spark_regexp_instr", "VARCHAR VARCHAR INTEGER", "INTEGER", _instr),
    row_function("spark_regexp_replace", "VARCHAR VARCHAR VARCHAR INTEGER", "VARCHAR", _replace),
    row_function("spark_split", "VARCHAR VARCHAR INTEGER", "VARCHAR[]", split),
)
