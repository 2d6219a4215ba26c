"""The text of a file of a project, which is UTF-8. A byte order mark at its beginning is no part of the text: editors of Windows write it."""

from __future__ import annotations

import codecs
import unicodedata
from pathlib import Path

from stepwell.errors import Location, ProjectError

_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_SAVE_AS = "Save the file as UTF-8."


def read_text(path: Path, name: str) -> str:
    """`name`: how errors call the file. Raises ProjectError, with the line, if it is not UTF-8."""
    content = path.read_bytes()
    for mark, encoding in _MARKS.items():  # the longer marks are first, because one begins with the other
        if content.startswith(mark):
            raise ProjectError(f"the file is {encoding}, and not UTF-8", _SAVE_AS, location=Location(name))
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        shown = content[content.rfind(b"\n", 0, error.start) + 1 : error.start].decode()[-20:]
        raise ProjectError(
            f"the file is not UTF-8: byte 0x{content[error.start]:02x} after {shown!r}",
            _SAVE_AS,
            location=Location(name, line),
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def invisible(text: str, first_line: int) -> str | None:
    """Where a text has a character that no editor shows, or that only looks like a blank; None if it has none. The text begins in
    `first_line`."""
    for number, line in enumerate(text.split("\n"), start=first_line):
        for column, letter in enumerate(line, start=1):
            if letter not in " \t" and unicodedata.category(letter) in ("Cf", "Cc", "Zs", "Zl", "Zp"):
                name = unicodedata.name(letter, "a control character")
                return f"line {number}, column {column} has the invisible character U+{ord(letter):04X} ({name})"
    return None
