"""The walls: imports point down only, between the rooms and between the folders of a room; no two files import each other; and Spark, Kafka
and LMDB are each named in few modules."""

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

# What the folders of a room may import of one another. The loose files of a room are its ground: any folder may import them, and they import
# no folder. A folder that is missing here is an error.
WITHIN: dict[str, dict[str, set[str]]] = {
    "engine": {
        "rows": set(),
        "accumulators": {"rows"},
        "state": {"rows", "accumulators"},
        "model": {"rows"},
        "expressions": {"model"},
        "operators": {"rows", "accumulators", "state", "model", "expressions"},
        "analysis": {"rows", "state", "model", "expressions", "operators"},
        "run": {"rows", "state", "model", "expressions", "operators", "analysis"},
    },
    "io_kafka": {"formats": set(), "step_log": set(), "clients": {"step_log"}, "broker": {"clients"}},
    "stepwell": {
        "project": set(),
        "spark": {"project"},
        "planning": {"project", "spark"},
        "lowering": {"planning"},
        "inspection": {"project", "planning", "lowering"},
        "service": set(),
        "doctor": {"project", "service"},
        "commands": {"project", "spark", "planning", "lowering", "inspection", "service", "doctor"},
    },
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


def imported_files(path: Path) -> set[Path]:
    """The files of ours that a module imports, wherever in it: also those that only a type checker reads. A module of a package does not
    import the package's `__init__`, unless it imports a name of it."""
    found: set[Path] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {file for alias in node.names if (file := _file_of(alias.name)) is not None}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {
                file
                for alias in node.names
                if (file := _file_of(f"{node.module}.{alias.name}") or _file_of(node.module)) is not None
            }
    return found - {path}


def _file_of(module: str) -> Path | None:
    place = ROOT / module.replace(".", "/")
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.exists()), None)


def folder_within(path: Path) -> str:
    """The folder of its room that a file lies in; empty for a loose one."""
    parts = path.relative_to(ROOT).parts
    return parts[1] if len(parts) > 2 else ""


MODULES = [path for room in MAY_IMPORT for path in sorted((ROOT / room).rglob("*.py"))]


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_imports_point_down(room: str) -> None:
    upward = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in (ROOT / room).rglob("*.py")
        for name in imports(path) & MAY_IMPORT.keys() - MAY_IMPORT[room]
    }
    assert not upward


@pytest.mark.parametrize("room", WITHIN)
def test_imports_point_down_within_a_room(room: str) -> None:
    folders = {path.parent.relative_to(ROOT / room).parts[0] for path in (ROOT / room).glob("*/*.py")}
    assert folders == WITHIN[room].keys(), "a folder without a rule, or a rule without its folder"
    upward = {
        f"{path.relative_to(ROOT)} imports {target.relative_to(ROOT)}"
        for path in (ROOT / room).rglob("*.py")
        for target in imported_files(path)
        if target.is_relative_to(ROOT / room)
        and (here := folder_within(path)) != (there := folder_within(target))
        and there not in {"", *WITHIN[room].get(here, set())}
    }
    assert not upward


def test_no_files_import_each_other_in_a_circle() -> None:
    reads = {path: imported_files(path) & set(MODULES) for path in MODULES}
    order: list[Path] = []
    while len(order) < len(reads):
        free = [path for path in reads if path not in order and reads[path] <= set(order)]
        assert free, sorted(str(path.relative_to(ROOT)) for path in reads.keys() - set(order))
        order += free


@pytest.mark.parametrize("system", FOREIGN)
def test_a_foreign_system_is_named_only_where_it_may_be(system: str) -> None:
    named = {str(path.relative_to(ROOT)) for path in MODULES if system in imports(path)}
    strangers = {name for name in named if not any(name.startswith(place) for place in FOREIGN[system])}
    assert named, f"nothing imports {system}: the rule is dead"
    assert not strangers


def test_decisions_are_made_without_io() -> None:
    """The cores of the protocols: no Kafka client, no database, no Spark, no clock, no randomness."""
    for name in ("coordinator/core.py", "coordinator/workers.py", "io_kafka/step_log/state.py", "io_kafka/step_log/output_progress.py",
                 "io_kafka/step_log/division.py"):  # fmt: skip
        forbidden = {"confluent_kafka", "lmdb", "pyspark", "time", "random", "threading", "os", "socket", "uuid"}
        assert not imports(ROOT / name) & forbidden, name
