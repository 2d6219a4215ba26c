"""The rooms' walls: imports point down only, and Spark, Kafka and LMDB are each named in few modules."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

MAY_IMPORT = {
    "stepwell": {"stepwell", "coordinator", "engine", "storage", "io_kafka", "base"},
    "coordinator": {"coordinator", "engine", "storage", "io_kafka", "faults", "base"},
    "engine": {"engine", "storage", "io_kafka", "faults", "base"},
    "storage": {"storage", "faults", "base"},
    "io_kafka": {"io_kafka", "faults", "base"},
    "faults": {"faults", "base"},
    "base": {"base"},
}

# What names a foreign system, and where it may. A new place is a decision, not an accident.
FOREIGN = {
    "lmdb": {"storage"},
    "confluent_kafka": {"io_kafka"},
    "pyspark": {"stepwell", "engine/run/daemon.py"},
    "py4j": {"stepwell", "coordinator/loop.py"},
    "duckdb": {"engine", "io_kafka/formats"},
}


def imports(path: Path) -> set[str]:
    """The top-level names that a module imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module.split(".")[0])
    return found


MODULES = [path for room in MAY_IMPORT for path in sorted((ROOT / room).rglob("*.py"))]


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_imports_point_down(room: str) -> None:
    upward = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in (ROOT / room).rglob("*.py")
        for name in imports(path) & MAY_IMPORT.keys() - MAY_IMPORT[room]
    }
    assert not upward


@pytest.mark.parametrize("system", FOREIGN)
def test_a_foreign_system_is_named_only_where_it_may_be(system: str) -> None:
    named = {str(path.relative_to(ROOT)) for path in MODULES if system in imports(path)}
    strangers = {name for name in named if not any(name.startswith(place) for place in FOREIGN[system])}
    assert named, f"nothing imports {system}: the rule is dead"
    assert not strangers


CORES = (
    "coordinator/core.py",
    "io_kafka/step_log/state.py",
    "io_kafka/step_log/records.py",
    "io_kafka/step_log/division.py",
    "io_kafka/step_log/output_progress.py",
)
"""The decisions of the protocols. They and all that they import must give the same answers to the same questions, on any machine."""

IMPURE = {
    *("asyncio", "concurrent", "fcntl", "http", "io", "mmap", "multiprocessing", "os", "pathlib", "select", "shutil", "signal"),
    *("socket", "ssl", "subprocess", "sys", "tempfile", "threading", "urllib"),
    *("datetime", "sched", "time", "timeit"),
    *("random", "secrets", "uuid"),
    *("confluent_kafka", "duckdb", "httpx", "lmdb", "psutil", "py4j", "pyarrow", "pyspark", "requests", "structlog", "tenacity"),
}  # fmt: skip
"""Input and output, clocks, randomness, and libraries that bring them. Other libraries are judged by their names alone."""


def modules_named(path: Path, root: Path) -> set[str]:
    """The dotted names that a module imports, wherever in it. `from a import b` names `a`, and `a.b` if that is a module of ours."""
    named: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None and node.level == 0, f"{path}: a relative import"
            named.add(node.module)
            named |= {f"{node.module}.{a.name}" for a in node.names if file_of(f"{node.module}.{a.name}", root)}
    return named


def file_of(name: str, root: Path) -> Path | None:
    """The file of our module of this dotted name; None for a foreign one."""
    base = root / Path(*name.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.exists()), None)


def foreign_of(start: Path, root: Path = ROOT) -> dict[str, tuple[str, ...]]:
    """Every foreign library that is loaded when the module `start` is imported, with the chain of our modules that leads to it. The
    `__init__` of each package on the way is executed too."""
    found: dict[str, tuple[str, ...]] = {}
    waiting = [(start, (str(start.relative_to(root)),))]
    seen: set[Path] = set()
    while waiting:
        path, chain = waiting.pop(0)  # the shortest chain first
        if path in seen:
            continue
        seen.add(path)
        names = modules_named(path, root) | {".".join(path.relative_to(root).with_suffix("").parts)}
        for name in sorted(names):
            parts = name.split(".")
            ours = [found_file for n in range(1, len(parts) + 1) if (found_file := file_of(".".join(parts[:n]), root))]
            if not ours:
                found.setdefault(parts[0], chain)
            waiting += [(file, (*chain, str(file.relative_to(root)))) for file in ours if file not in seen]
    return found


@pytest.mark.parametrize("core", CORES)
def test_decisions_are_made_without_io(core: str) -> None:
    """The cores of the protocols load no client, database, clock or randomness, not even through another module of ours."""
    impure = {library: " > ".join(chain) for library, chain in foreign_of(ROOT / core).items() if library in IMPURE}
    assert not impure


def test_an_import_through_other_modules_and_packages_is_found(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "__init__.py").write_text("import socket")
    (tmp_path / "room" / "far.py").write_text("def later():\n    from lmdb import Environment")
    (tmp_path / "near.py").write_text("from room import far")
    (tmp_path / "core.py").write_text("from dataclasses import dataclass\nimport near")
    assert foreign_of(tmp_path / "core.py", tmp_path) == {
        "dataclasses": ("core.py",),
        "socket": ("core.py", "near.py", "room/__init__.py"),
        "lmdb": ("core.py", "near.py", "room/far.py"),
    }
