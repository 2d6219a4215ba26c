"""What is packed, and under which names: everything in the one package `stepwell`.

In the repository the rooms (`base`, `engine`, ...) are folders side by side, and import each other by these names. Installed like that, they
would meet the modules of others: a distribution that has a package `base` too, or a project with a file `storage.py`. So a wheel has them
within `stepwell`, and each import of a room in it is rewritten: `from engine.rows import x` becomes `from stepwell.engine.rows import x`. An
editable installation leads to the repository, with the names that are there. Decision 0127 has the alternatives.

`STEPWELL_PURE=1` leaves the extensions in C out, for a wheel that runs on every platform.
"""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_py import build_py

PACKAGE = "stepwell"
ROOMS = ("base", "coordinator", "engine", "faults", "io_kafka", "protocols", "storage")
EXTENSIONS = ("io_kafka.clients._native", "io_kafka.formats._json")
"""Reading without them costs more, and gives the same. So where there is no C compiler they are left out (io_kafka/clients/native.py and
io_kafka/formats/native_json.py)."""

FOR_THE_REPOSITORY = {"editable_wheel", "develop"}
"""Commands of setuptools for which the names stay as they are."""


def in_one_package(source: str) -> str:
    """The text of a module with each import of a room from within the package. Lines keep their numbers. Raises ValueError for an import that
    would also have to bind another name."""
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            rooms = [name for name in node.names if name.name.split(".")[0] in ROOMS]
            if not rooms:
                continue
            if node.names != rooms or rooms[0].asname is None or len(rooms) > 1:
                raise ValueError(f"line {node.lineno}: write `from ROOM import ...` in place of `{ast.unparse(node)}`")
            statement = f"import {rooms[0].name} "
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] in ROOMS:
            statement = f"from {node.module} "
        else:
            continue
        line = lines[node.lineno - 1]
        before, after = line[: node.col_offset], line[node.col_offset :]
        if not before.isascii() or not after.startswith(statement):
            raise ValueError(f"line {node.lineno}: `{line.strip()}` is not written as the others are")
        keyword = statement.split(" ")[0]
        lines[node.lineno - 1] = f"{before}{keyword} {PACKAGE}.{after.removeprefix(keyword + ' ')}"
    return "".join(lines)


class BuildInOnePackage(build_py):
    """Copies the modules, and rewrites the imports of rooms. Doing it twice changes nothing."""

    def build_module(self, module: str, module_file: str, package: str) -> tuple[str, bool]:
        target, is_copied = super().build_module(module, module_file, package)
        copy = Path(target)
        try:
            text = in_one_package(copy.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{module_file}: {error}") from error
        copy.write_text(text, encoding="utf-8")
        return target, is_copied


def main() -> None:
    within, command = f"{PACKAGE}.", {"build_py": BuildInOnePackage}
    if FOR_THE_REPOSITORY & set(sys.argv):
        within, command = "", {}
    names = [*ROOMS, *(f"{room}.*" for room in ROOMS)]
    extensions = [] if os.environ.get("STEPWELL_PURE") == "1" else EXTENSIONS
    setup(
        packages=[
            *find_packages(include=[PACKAGE, f"{PACKAGE}.*"]),
            *(within + name for name in find_packages(include=names)),
        ],
        package_dir={within + room: room for room in ROOMS} if within else {},
        ext_modules=[
            Extension(within + name, [name.replace(".", "/") + ".c"], optional=True)  # type: ignore[no-untyped-call]
            for name in extensions
        ],
        cmdclass=command,
    )


if __name__ == "__main__":
    main()
