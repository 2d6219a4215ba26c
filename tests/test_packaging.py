"""What a wheel has: all of our modules in one package, with the imports that fit (setup.py). `make dist` tries a wheel that is installed."""

from __future__ import annotations

import ast
import importlib.util
import re
import tomllib
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from stepwell.planning import installed
from tests.rooms import ROOMS

ROOT = Path(__file__).parent.parent
INNER = tuple(room for room in ROOMS if room != "stepwell")
AN_IMPORT = re.compile(rf"^\s*(?:from|import) (?:{'|'.join(INNER)})\b.*", re.MULTILINE)
A_MODULE = re.compile(rf"(?:{'|'.join(INNER)})(?:\.\w+)+")
A_TEXT = re.compile(rf"[\"']{A_MODULE.pattern}[\"']")


@cache
def setup_file() -> ModuleType:
    spec = importlib.util.spec_from_file_location("setup_file", ROOT / "setup.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def packed(source: str) -> str:
    return str(setup_file().in_one_package(source))


def modules() -> list[Path]:
    return sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from engine.rows import zset\n", "from stepwell.engine.rows import zset\n"),
        ("from base import (\n    fault,\n    term,\n)\n", "from stepwell.base import (\n    fault,\n    term,\n)\n"),
        ("def f():\n    from storage.a import b\n    return b\n", "def f():\n    from stepwell.storage.a import b\n    return b\n"),
        ("import io_kafka.a._b as _b\n", "import stepwell.io_kafka.a._b as _b\n"),
        ("if True: from faults.a import b\n", "if True: from stepwell.faults.a import b\n"),
    ],
)  # fmt: skip
def test_an_import_of_a_room_leads_into_the_package(before: str, after: str) -> None:
    assert packed(before) == after


@pytest.mark.parametrize(
    "source",
    [
        "from stepwell.engine.rows import zset\n",
        "from engines import x\nimport baseline\n",
        "from . import engine\nfrom .base import x\n",
        '"""\nfrom engine.rows import zset\n"""\nengine = 1\n',
    ],
)
def test_nothing_else_changes(source: str) -> None:
    assert packed(source) == source


@pytest.mark.parametrize("source", ["import engine\n", "import engine.rows\n", "import os, storage.names as names\n"])
def test_an_import_that_binds_a_room_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="line 1: write `from ROOM import"):
        packed(source)


def test_no_module_of_a_wheel_imports_a_room_by_its_name_in_the_repository() -> None:
    wrong = {path: found for path in modules() if (found := AN_IMPORT.findall(packed(path.read_text())))}
    assert not wrong


LOGGERS = ("Logger", "logging.getLogger")


def test_no_text_names_a_module_of_a_room() -> None:
    """`python -m` and Spark take a module's name as a text, which no build rewrites. The names of loggers are only shown."""
    wrong = []
    for path in modules():
        if A_TEXT.search(text := path.read_text()) is None:
            continue
        tree = ast.parse(text)
        calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) in LOGGERS)
        shown = {id(argument) for call in calls for argument in call.args}
        texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in shown)
        found = {node.value for node in texts if isinstance(node.value, str) and A_MODULE.fullmatch(node.value)}
        wrong += [f"{path}: {name}" for name in found if (ROOT / f"{name.replace('.', '/')}.py").is_file()]
    assert not wrong, "build the name from __package__, which is right in the repository and in a wheel"


def test_the_rooms_have_names_that_are_free_in_the_package() -> None:
    assert set(setup_file().ROOMS) == set(INNER)
    assert set(installed.ROOMS) == set(ROOMS)
    assert not [
        name for name in INNER if (ROOT / "stepwell" / name).exists() or (ROOT / "stepwell" / f"{name}.py").exists()
    ]


def test_every_extension_has_its_source() -> None:
    sources = {str(path.relative_to(ROOT)) for room in INNER for path in (ROOT / room).rglob("*.c")}
    assert {name.replace(".", "/") + ".c" for name in setup_file().EXTENSIONS} == sources


def test_what_is_installed_is_all_of_the_rooms() -> None:
    assert {path for folder in installed.FOLDERS for path in folder.rglob("*.py")} == set(modules())


def test_every_file_beside_the_code_is_packed() -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["*"]
    files = (path for room in ROOMS for path in (ROOT / room).rglob("*") if path.is_file())
    others = [path for path in files if path.suffix not in (".py", ".c", ".so", ".pyc")]
    assert [path for path in others if any(path.match(pattern) for pattern in data)] == others
