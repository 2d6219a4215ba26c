"""Files of a project are UTF-8, with or without a byte order mark; anything else is refused with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stepwell.errors import ProjectError
from stepwell.project.definitions import load_definitions, quiet_spark
from stepwell.project.text_files import invisible, read_text
from tests.stepwell.folder import project

VIEW = "CREATE MATERIALIZED VIEW über AS\nSELECT 'ß' AS a;\n"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            VIEW.encode("latin-1"),
            r"a\.sql:1: the file is not UTF-8: byte 0xfc after 'E MATERIALIZED VIEW '\n.*Save the file",
        ),
        (b"\xef\xbb\xbf" + VIEW.replace("über", "u").encode("cp1252"), r"a\.sql:2: the file is not UTF-8: byte 0xdf"),
        (VIEW.encode() + b"-- \xff", r"a\.sql:3: the file is not UTF-8: byte 0xff after '-- '"),
        (VIEW.encode("utf-16"), r"a\.sql: the file is UTF-16, and not UTF-8"),
        (VIEW.encode("utf-32"), r"a\.sql: the file is UTF-32, and not UTF-8"),
        (b"\xc3", r"a\.sql:1: the file is not UTF-8: byte 0xc3 after ''"),
    ],
)
def test_another_encoding_is_told(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "a.sql"
    file.write_bytes(content)
    with pytest.raises(ProjectError, match=says):
        read_text(file, "a.sql")


@pytest.mark.parametrize("mark", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_byte_order_mark_and_the_ends_of_lines_are_no_part_of_the_text(tmp_path: Path, mark: str, end: str) -> None:
    file = tmp_path / "a.sql"
    file.write_bytes(VIEW.replace("\n", end).encode(mark))
    assert read_text(file, "a.sql") == VIEW


def test_an_invisible_character_is_found() -> None:
    assert invisible("a b\tc\nd", 3) is None
    assert invisible("a\n b\u00a0c", 3) == "line 4, column 3 has the invisible character U+00A0 (NO-BREAK SPACE)"
    assert invisible("\ufeffa", 1) == "line 1, column 1 has the invisible character U+FEFF (ZERO WIDTH NO-BREAK SPACE)"
    assert invisible("a\x00", 1) == "line 1, column 2 has the invisible character U+0000 (a control character)"


def test_definitions_in_files_of_every_kind(tmp_path: Path, spark: SparkSession) -> None:
    def load(name: str, content: bytes) -> list[str]:
        found = project(tmp_path / name, {f"{name}": ""})
        (found.root / "transformations" / name).write_bytes(content)
        with quiet_spark():
            return [output.name for output in load_definitions(found, spark).outputs]

    assert load("a.sql", VIEW.replace("über", "v").encode("utf-8-sig")) == ["v"]
    python = "from pyspark import pipelines as dp\ndp.create_streaming_table('t', comment='ß')\n"
    assert load("b.py", python.encode("utf-8-sig")) == ["t"]
    with pytest.raises(ProjectError, match=r"c\.sql:1: the file is not UTF-8"):
        load("c.sql", VIEW.encode("latin-1"))
    with pytest.raises(ProjectError, match=r"d\.py.*SyntaxError"):
        load("d.py", python.encode("latin-1"))
    with pytest.raises(ProjectError, match=r"e\.sql:2: .*\n.*Line 2, column 7 has the invisible character U\+200B"):
        load("e.sql", "CREATE MATERIALIZED VIEW v AS\nSELECT\u200b 1 AS a;\n".encode())
