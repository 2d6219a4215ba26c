"""The walls: imports point down only, between the rooms and between the folders of a room; no two files import each other; and Spark, Kafka
and LMDB are each named in few modules."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.rooms import ROOMS

ROOT = Path(__file__).parent.parent

MAY_IMPORT = {
    "stepwell": {"stepwell", "coordinator", "protocols", "engine", "storage", "io_kafka", "base"},
    "coordinator": {"coordinator", "engine", "storage", "io_kafka", "faults", "base"},
    "engine": {"engine", "storage", "io_kafka", "faults", "base"},
    "storage": {"storage", "faults", "base"},
    "io_kafka": {"io_kafka", "faults", "base"},
    "faults": {"faults", "base"},
    "protocols": {"protocols", "base"},
    "base": {"base"},
}

# What the folders of a room may import of one another. The loose files of a room are its ground: any folder may import them, and they import
# no folder, except those in LOOSE. A folder that is missing here is an error.
WITHIN: dict[str, dict[str, set[str]]] = {
    "storage": {"remote": set()},
    "engine": {
        "rows": set(),
        "accumulators": {"rows"},
        "state": {"rows", "accumulators"},
        "model": {"rows"},
        "expressions": {"model"},
        "python": {"model", "expressions"},
        "operators": {"rows", "accumulators", "state", "model", "expressions", "python"},
        "analysis": {"rows", "state", "model", "expressions", "operators"},
        "run": {"rows", "state", "model", "expressions", "operators", "analysis"},
        "resident": {"analysis", "expressions", "model", "operators", "python", "run", "state"},
    },
    "io_kafka": {
        "registry": set(),
        "formats": {"registry"},
        "step_log": set(),
        "clients": {"step_log"},
        "broker": {"clients"},
    },
    "coordinator": {
        "revisions": set(),
        "starting": {"revisions"},
        "transition": {"revisions", "starting"},
        "stepping": {"starting", "transition"},
        "checkpoints": {"starting", "stepping", "transition"},
        "rescale": {"starting"},
        "automatic": {"rescale"},
        "storing": {"starting"},
        "cloning": {"revisions", "starting", "storing"},
        "running": {"revisions", "starting", "stepping", "checkpoints", "rescale", "transition", "storing"},
    },
    "stepwell": {
        "spark": set(),
        "catalyst": set(),
        "project": {"spark", "catalyst"},
        "planning": {"project", "spark", "catalyst"},
        "lowering": {"planning", "catalyst"},
        "inspection": {"project", "planning", "lowering", "catalyst"},
        "service": set(),
        "doctor": {"project", "service", "catalyst", "planning"},
        "dev_cluster": set(),
        "error_pages": set(),
        "commands": {
            "project",
            "spark",
            "planning",
            "lowering",
            "inspection",
            "service",
            "doctor",
            "dev_cluster",
            "error_pages",
        },
        "reference": {"project", "commands"},
    },
}

# The loose files that are no ground: what they may import of the folders of their room. No two files import each other, so what imports one
# of them stands above what it needs of that folder.
LOOSE = {
    "stepwell/cli.py": {"commands"},
    "coordinator/actions.py": {"rescale", "transition"},
    "coordinator/core.py": {"rescale", "transition", "checkpoints"},
    "coordinator/loop_part.py": {"rescale", "starting", "transition"},
    "coordinator/specification.py": {"starting", "checkpoints", "automatic"},
    "coordinator/requests.py": {"checkpoints", "rescale", "revisions", "automatic"},
    "coordinator/loop.py": WITHIN["coordinator"].keys() - {"cloning"},
    "coordinator/pipeline.py": WITHIN["coordinator"].keys() - {"cloning"},
}

# What names a foreign system, and where it may. A new place is a decision, not an accident.
FOREIGN = {
    "lmdb": {"storage"},
    "confluent_kafka": {"io_kafka"},
    # Users' functions are called by the code with which Spark calls them, or their values would be converted by a copy of it.
    "pyspark": {"stepwell", "engine/resident/daemon.py", "engine/python/spark_worker.py"},
    "py4j": {"stepwell"},
    "duckdb": {"engine", "io_kafka/formats"},
    "google": {"io_kafka/formats/protobuf"},
    "httpx": {"io_kafka/registry", "stepwell/service", "stepwell/dev_cluster"},
}


@cache
def import_statements(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """Of a module, wherever in it: also those that only a type checker reads. Most tests of this file read all modules."""
    return tuple(
        node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)
    )


@cache
def imports(path: Path) -> frozenset[str]:
    """The top-level names that a module imports."""
    found: set[str] = set()
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module.split(".")[0])
    return frozenset(found)


@cache
def imported_files(path: Path) -> frozenset[Path]:
    """The files of ours that a module imports. A module of a package does not import the package's `__init__`, unless it imports a name of
    it."""
    found: set[Path] = set()
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            found |= {file for alias in node.names if (file := _file_of(alias.name)) is not None}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {
                file
                for alias in node.names
                if (file := _file_of(f"{node.module}.{alias.name}") or _file_of(node.module)) is not None
            }
    return frozenset(found - {path})


@cache
def _file_of(module: str) -> Path | None:
    place = ROOT / module.replace(".", "/")
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.exists()), None)


def folder_within(path: Path) -> str:
    """The folder of its room that a file lies in; empty for a loose one."""
    parts = path.relative_to(ROOT).parts
    return parts[1] if len(parts) > 2 else ""


MODULES = [path for room in MAY_IMPORT for path in sorted((ROOT / room).rglob("*.py"))]


def test_every_room_has_walls() -> None:
    assert set(ROOMS) == MAY_IMPORT.keys()


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
        and there not in {"", *WITHIN[room].get(here, set()), *LOOSE.get(str(path.relative_to(ROOT)), set())}
    }
    assert not upward


IO_KAFKA = sorted(WITHIN["io_kafka"])


def rooms_named(folder: Path) -> set[str]:
    """The rooms to which a folder is open, by the first line of its docstring."""
    first = (ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or "").splitlines()[0]
    said = re.search(r"Open to ([a-z_, ]+)\.$", first)
    assert said is not None, f"{folder.name}: the first line does not say to whom it is open"
    return set(re.split(r", | and ", said[1]))


@pytest.mark.parametrize("folder", IO_KAFKA)
def test_a_folder_of_io_kafka_says_who_may_come_in(folder: str) -> None:
    place = ROOT / "io_kafka" / folder
    guests = {
        path.relative_to(ROOT).parts[0]
        for path in MODULES
        if any(target.is_relative_to(place) for target in imported_files(path))
    }
    assert rooms_named(place) == guests - {"io_kafka"}, "a guest who is not named, or a name that is not needed"


def test_the_coordinator_is_a_loop_and_folders() -> None:
    """What is loose is a run, its loop, the core, and what all others need. Everything else has a folder."""
    loose = {path.stem for path in (ROOT / "coordinator").glob("*.py")} - {"__init__"}
    assert loose == {
        "pipeline",
        "loop",
        "loop_part",
        "core",
        "goal",
        "inbox",
        "actions",
        "boundary",
        "requests",
        "status",
        "shown_status",
        "measures",
        "specification",
        "topic_names",
        "background_work",
    }


def test_no_files_import_each_other_in_a_circle() -> None:
    reads = {path: imported_files(path) & set(MODULES) for path in MODULES}
    while reads:
        free = {path for path, others in reads.items() if not others}
        assert free, sorted(str(path.relative_to(ROOT)) for path in reads)
        reads = {path: others - free for path, others in reads.items() if path not in free}


@pytest.mark.parametrize("system", FOREIGN)
def test_a_foreign_system_is_named_only_where_it_may_be(system: str) -> None:
    named = {str(path.relative_to(ROOT)) for path in MODULES if system in imports(path)}
    strangers = {name for name in named if not any(name.startswith(place) for place in FOREIGN[system])}
    assert named, f"nothing imports {system}: the rule is dead"
    assert not strangers


CORES = (
    "coordinator/core.py",
    "coordinator/rescale/machine.py",
    "coordinator/transition/machine.py",
    "coordinator/transition/step_faults.py",
    "coordinator/storing/machine.py",
    "coordinator/automatic/machine.py",
    "coordinator/automatic/sampling.py",
    "coordinator/automatic/replay.py",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "protocols").glob("*.py"))),
    "engine/model/layout.py",
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
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        else:
            assert node.module is not None and node.level == 0, f"{path}: a relative import"
            named.add(node.module)
            named |= {f"{node.module}.{a.name}" for a in node.names if file_of(f"{node.module}.{a.name}", root)}
    return named


@cache
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


WHO_HAS_PROTOCOLS = {"stepwell/commands/serve.py"}
"""The command that runs a pipeline gives it the protocols that it has. So nothing else depends on them, and they can go without a trace."""


def test_protocols_are_imported_by_the_command_alone_that_runs_a_pipeline() -> None:
    outside = (path for path in MODULES if not path.is_relative_to(ROOT / "protocols"))
    assert {str(path.relative_to(ROOT)) for path in outside if "protocols" in imports(path)} == WHO_HAS_PROTOCOLS


def test_the_core_loads_no_protocol() -> None:
    """In a process of its own: tests have loaded them all."""
    said = "import sys, coordinator.core, coordinator.pipeline; print([name for name in sys.modules if name.startswith('protocols')])"
    done = subprocess.run([sys.executable, "-c", said], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


SLOW_TO_LOAD = ("confluent_kafka", "duckdb", "pyarrow", "pyspark", "structlog")


def test_commands_that_only_ask_a_service_load_nothing_slow() -> None:
    said = f"import sys, stepwell.commands.control, stepwell.commands.query; print([name for name in {SLOW_TO_LOAD} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", said], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


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
