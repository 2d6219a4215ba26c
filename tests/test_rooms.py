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


def test_decisions_are_made_without_io() -> None:
    """The cores of the protocols: no Kafka client, no database, no Spark, no clock, no randomness."""
    for name in ("coordinator/core.py", "coordinator/workers.py", "io_kafka/step_log/state.py", "io_kafka/step_log/output_progress.py",
                 "io_kafka/step_log/division.py"):  # fmt: skip
        forbidden = {"confluent_kafka", "lmdb", "pyspark", "time", "random", "threading", "os", "socket", "uuid"}
        assert not imports(ROOT / name) & forbidden, name
