"""Which modules belong to a project, and the files that a function imports while it runs.

Nothing is imported here. A module that only a running function imports may not be imported yet, and its code must not run while a project is
planned.
"""

from __future__ import annotations

import ast
import dis
import functools
import importlib.machinery
import importlib.util
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_FOLDERS = ("site-packages", "dist-packages")
"""Where packages are installed."""

_PARSED_MAX = 256
"""The number of modules whose imports are kept. A project has fewer, and what is kept of each is its text."""


def is_installed(module: str) -> bool:
    """Whether the module belongs to Python or to an installed package, and not to a project. True for a name that nothing was imported by."""
    found = sys.modules.get(module)
    if found is None:
        return False
    file = getattr(found, "__file__", None)
    if file is None:
        spec = getattr(found, "__spec__", None)
        paths = list(getattr(found, "__path__", ()) or ())
        if paths:  # a package without __init__
            return all(_in_library(place) for place in paths)
        return module != "__main__" and isinstance(spec, importlib.machinery.ModuleSpec)
    return _in_library(file)


@functools.cache
def _in_library(file: str) -> bool:
    path = Path(file)
    return any(part in _FOLDERS for part in path.parts) or path.is_relative_to(sysconfig.get_path("stdlib"))


@dataclass(frozen=True)
class Imported:
    """An import statement: `from (level dots)name import names`."""

    name: str
    names: tuple[str, ...] = ()
    level: int = 0

    def modules(self, package: str) -> Iterator[str]:
        """The names of all modules that the statement may run, each after the packages around it. `package`: where the statement stands."""
        whole = self.name
        if self.level:
            if not package:
                return  # it would fail
            whole = importlib.util.resolve_name("." * self.level + self.name, package)
        parts = whole.split(".")
        yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))
        yield from (f"{whole}.{name}" for name in self.names if name != "*")


def imports_in(code: types.CodeType) -> Iterator[Imported]:
    """The import statements of the code, without those of functions within it."""
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    for level, names, found in zip(steps, steps[1:], steps[2:], strict=False):
        if found.opname == "IMPORT_NAME":
            yield Imported(found.argval, tuple(names.argval or ()), level.argval)


def files_imported(imports: Iterable[Imported], package: str) -> dict[str, bytes]:
    """By module, the files of the project that these statements run: of each module that they name, and of those that its file imports."""
    found: dict[str, bytes] = {}
    folders: dict[str, list[str] | None] = {}
    waiting = [name for each in imports for name in each.modules(package)]
    while waiting:
        name = waiting.pop(0)
        if name in folders:
            continue
        around = name.rpartition(".")[0]
        file, folders[name] = _find(name, folders.get(around) if around else [*sys.path, str(Path.cwd())])
        if file is None:
            continue
        found[name] = file.read_bytes()
        own = name if folders[name] is not None else around
        waiting += [more for each in _imports_of_file(found[name]) for more in each.modules(own)]
    return found


def _find(name: str, folders: list[str] | None) -> tuple[Path | None, list[str] | None]:
    """The file of a module of the project, and the folders of its own modules, if it is a package."""
    loaded = sys.modules.get(name)
    spec = getattr(loaded, "__spec__", None)
    if spec is None and folders is not None:
        spec = importlib.machinery.PathFinder.find_spec(name, folders)
    if spec is None:
        return None, None
    inner = None if spec.submodule_search_locations is None else list(spec.submodule_search_locations)
    if not spec.has_location or spec.origin is None:
        return None, None if inner is None or all(map(_in_library, inner)) else inner
    file = Path(spec.origin)
    return (file, inner) if file.is_file() and not _in_library(spec.origin) else (None, None)


@functools.lru_cache(maxsize=_PARSED_MAX)
def _imports_of_file(text: bytes) -> tuple[Imported, ...]:
    """The import statements in the text of a module. It is kept by the text, because many functions import the same helper."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError):
        return ()  # it is no Python, or the import will fail
    found: list[Imported] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            found += (Imported(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.append(Imported(node.module or "", tuple(alias.name for alias in node.names), node.level))
    return tuple(found)
