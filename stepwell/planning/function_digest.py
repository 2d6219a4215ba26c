"""The digest of a function of the user's: what a circuit keeps of it.

Guarantees: the digest is a function of what the function does. It is the same in every process, whatever the lines, the comments, the names
and the docstrings are. It changes with the code, its constants, its defaults, and everything of the project that the code reads: other
functions, classes and values, by closures and global names, also in modules of the project. A module of the project that is passed on as a value
counts as a whole, and so do the files that the code imports when it runs.

A pickle would not do. It has the number of each line and the path of each file, and it differs between processes for equal sets. The bytecode is
that of one minor version of Python, so another one is a change of every function. Libraries count by the names that a function reads of them: a
release that computes something else is not noticed.
"""

from __future__ import annotations

import copyreg
import dis
import enum
import functools
import hashlib
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

from stepwell.planning.project_modules import files_imported, imports_in, is_installed

_BYTES = 16

_PLAIN = (bool, int, float, complex, str, bytes)
"""The types whose values are described whole by their texts."""

_NO_CONTENT = frozenset(
    {
        "__module__",
        "__dict__",
        "__weakref__",
        "__doc__",
        "__qualname__",
        "__firstlineno__",
        "__static_attributes__",
        "_abc_impl",
    }
)
"""Entries of a class that say where it stands, or that each process makes for itself."""

_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"})
"""Instructions that read a name which is not of the function itself."""


class NoDigest(Exception):
    """The function refers to something whose content cannot be told. `what` names it."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


def digest_of(function: Callable[..., Any], refuse: Callable[[object], str | None] = lambda value: None) -> str:
    """Returns the digest of the function and all that it refers to. Raises NoDigest, also for a value for which `refuse` gives a reason."""
    return _Digests(refuse).of(function).hex()


class _Digests:
    """The digests of one walk. `_open` has the objects around the present one, so that a circle ends; `_known` those that are done."""

    def __init__(self, refuse: Callable[[object], str | None]) -> None:
        self._refuse = refuse
        self._open: list[int] = []
        self._known: dict[int, tuple[object, bytes]] = {}

    def of(self, value: Any) -> bytes:
        if value is None or value is ... or (isinstance(value, _PLAIN) and self._is_told_by_its_text(value)):
            return _hash(type(value).__name__, repr(value).encode())
        if (known := self._known.get(id(value))) is not None:
            return known[1]
        if id(value) in self._open:
            return _hash("circle", str(len(self._open) - self._open.index(id(value))).encode())
        if (reason := self._refuse(value)) is not None:
            raise NoDigest(reason)
        self._open.append(id(value))
        try:
            made = self._digest(value)
        except RecursionError:
            raise NoDigest(f"a {type(value).__name__} that is nested too deeply") from None
        finally:
            self._open.pop()
        self._known[id(value)] = value, made  # the value is kept, so that no other object gets its id
        return made

    def _is_told_by_its_text(self, value: Any) -> bool:
        """Whether a plain value's class adds nothing to its text. A class of the project does, with its methods, and so do attributes. Members
        of an enumeration are described by their text where their class is described, which has them all."""
        kind = type(value)
        if kind in _PLAIN:
            return True
        if isinstance(value, enum.Enum):
            return id(kind) in self._open or _is_of_library(kind)
        return _is_of_library(kind) and not getattr(value, "__dict__", None)

    def _digest(self, value: Any) -> bytes:
        match value:
            case tuple() | list() if type(value) in (tuple, list):
                return self._parts(type(value).__name__, value)
            case dict() | types.MappingProxyType() if type(value) in (dict, types.MappingProxyType):
                return self._parts("dict", (part for pair in value.items() for part in pair))
            case set() | frozenset() if type(value) in (set, frozenset):
                return _hash(type(value).__name__, *sorted(self.of(item) for item in value))
            case types.CodeType():
                return self._code(value)
            case types.FunctionType():
                return self._function(value)
            case types.MethodType():
                return self._parts("method", (value.__func__, value.__self__))
            case staticmethod() | classmethod():
                return self._parts(type(value).__name__, (value.__func__,))
            case property():
                return self._parts("property", (value.fget, value.fset, value.fdel))
            case functools.partial() if _is_of_library(type(value)):
                return self._parts("partial", (value.func, value.args, value.keywords))
            case types.ModuleType():
                return self._module(value)
            case type():
                return self._class(value)
            case types.CellType():
                return self._parts("cell", (value.cell_contents,))
            case types.BuiltinFunctionType() | types.MethodDescriptorType() | types.WrapperDescriptorType():
                owner = getattr(value, "__self__", None)
                bound = () if owner is None or isinstance(owner, types.ModuleType) else (owner,)
                return _hash("builtin", _name(value), *(self.of(part) for part in bound))
        return self._object(value)

    def _parts(self, kind: str, parts: Iterable[Any]) -> bytes:
        return _hash(kind, *(self.of(part) for part in parts))

    def _function(self, function: types.FunctionType) -> bytes:
        if _is_of_library(function):
            return _hash("function", _name(function))
        enclosing = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        cells = [self._of_cell(name, cell, function.__code__) for name, cell in enclosing]
        read = self._read(function.__code__, function.__globals__)
        plain = (function.__code__, function.__defaults__, function.__kwdefaults__, cells, dict(function.__dict__))
        return self._parts("function", (*plain, read))

    def _read(self, code: types.CodeType, names: Mapping[str, Any]) -> list[Any]:
        """What the code and the functions within it read by global names. Of a module of the project, it is what they read of it."""
        found: list[Any] = []
        for name in sorted(_globals_of(code)):
            if name not in names:
                found.append(("missing", name))
            elif isinstance(names[name], types.ModuleType):
                found.append((name, self._read_of(names[name], name, code)))
            else:
                found.append((name, names[name]))
        imports = [each for inner in _codes(code) for each in imports_in(inner)]
        files = files_imported(imports, names.get("__package__") or "")
        for name in sorted({each.name for each in imports}):
            found.append(("import", name, files.pop(name)) if name in files else ("import", name))
        found += [("imported", name, files[name]) for name in sorted(files)]
        return found

    def _of_cell(self, name: str, cell: types.CellType, code: types.CodeType) -> Any:
        """What the code reads of a name of the function around it."""
        value = cell.cell_contents if _is_filled(cell) else ...
        if isinstance(value, types.ModuleType) and not is_installed(value.__name__):
            return self._read_of(value, name, code)
        return value

    def _read_of(self, module: types.ModuleType, name: str, code: types.CodeType) -> list[Any]:
        """What the code reads of a module that it has by this name: all of it, if the module is passed on."""
        found = self._of_module(module, _attributes_of(code), set())
        return [*found, module] if name in _passed_on(code) and not is_installed(module.__name__) else found

    def _module(self, module: types.ModuleType) -> bytes:
        """Returns the digest of a module that is a value. It is not known what is read of such a module."""
        if is_installed(module.__name__):
            return _hash("module", module.__name__.encode())
        content = [
            each for each in sorted(vars(module).items()) if each[0] == "__getattr__" or not each[0].startswith("__")
        ]
        return self._parts("module", (module.__name__, content))

    def _of_module(self, module: types.ModuleType, wanted: frozenset[str], seen: set[str]) -> list[Any]:
        found: list[Any] = [module.__name__]
        if is_installed(module.__name__) or module.__name__ in seen:
            return found
        seen.add(module.__name__)
        names = wanted & vars(module).keys()
        if wanted - names:
            names |= vars(module).keys() & {"__getattr__"}  # it may make what the module does not have
        for name in sorted(names):
            value = getattr(module, name)
            inner = self._of_module(value, wanted, seen) if isinstance(value, types.ModuleType) else value
            found.append((name, inner))
        return found

    def _code(self, code: types.CodeType) -> bytes:
        constants: list[Any] = list(code.co_consts)
        if constants and isinstance(constants[0], str) and not _loads_first_constant(code):
            constants[0] = None  # the docstring
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        return self._parts("code", (code.co_code, code.co_exceptiontable, constants, names, counts))

    def _class(self, kind: type) -> bytes:
        if _is_of_library(kind):
            return _hash("class", _name(kind))
        entries = {name: value for name, value in vars(kind).items() if name not in _NO_CONTENT}
        content = [
            (name, value)
            for name, value in sorted(entries.items())
            if not isinstance(value, types.GetSetDescriptorType | types.MemberDescriptorType)
        ]
        return self._parts("class", (type(kind), kind.__bases__, content))

    def _object(self, value: Any) -> bytes:
        """Returns the digest of an object, by what a pickle would have of it. A library's wrapper, such as functools.lru_cache, is described by
        what it wraps, because its pickle has its name, or what the process has made."""
        wrapped = getattr(value, "__dict__", {}).get("__wrapped__") if _is_of_library(type(value)) else None
        if wrapped is not None and callable(value):
            return self._parts("wrapper", (type(value), wrapped))
        try:
            reduce = copyreg.dispatch_table.get(type(value))
            reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
        except Exception as error:
            raise NoDigest(f"a {type(value).__module__}.{type(value).__qualname__} ({error})") from error
        if isinstance(reduced, str):
            return _hash("name", type(value).__module__.encode(), reduced.encode())
        make, arguments, *rest = reduced
        parts = [list(part) if place in (1, 2) and part is not None else part for place, part in enumerate(rest)]
        return self._parts("object", (make, arguments, parts))


def _hash(kind: str, *parts: bytes) -> bytes:
    state = hashlib.blake2b(digest_size=_BYTES)
    for part in (kind.encode(), *parts):
        state.update(len(part).to_bytes(8, "little") + part)
    return state.digest()


def _name(value: Any) -> bytes:
    return f"{getattr(value, '__module__', '')}.{value.__qualname__}".encode()


def _is_of_library(value: Any) -> bool:
    """Whether the name of a function or class leads to it in an installed module, so that the name says what it is."""
    if not is_installed(str(value.__module__)):
        return False
    found: Any = sys.modules[value.__module__]
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value or getattr(found, "__wrapped__", None) is value  # a decorator may have wrapped it


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _codes(code: types.CodeType) -> Iterable[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _names_in(code: types.CodeType, operations: frozenset[str]) -> frozenset[str]:
    return frozenset(
        str(instruction.argval)
        for inner in _codes(code)
        for instruction in dis.get_instructions(inner)
        if instruction.opname in operations
    )


def _globals_of(code: types.CodeType) -> frozenset[str]:
    return _names_in(code, frozenset({"LOAD_GLOBAL", "LOAD_NAME"}))


def _passed_on(code: types.CodeType) -> frozenset[str]:
    """The names of functions around it, and of the module, that the code reads otherwise than for an attribute of what they name."""
    found: set[str] = set()
    for inner in _codes(code):
        steps = [step for step in dis.get_instructions(inner) if step.opname != "EXTENDED_ARG"]
        found |= {
            str(step.argval)
            for step, following in pairwise(steps)
            if step.opname in _LOADS and following.opname not in ("LOAD_ATTR", "LOAD_METHOD")
        }
    return frozenset(found)


def _attributes_of(code: types.CodeType) -> frozenset[str]:
    return frozenset(name for inner in _codes(code) for name in inner.co_names)


def _loads_first_constant(code: types.CodeType) -> bool:
    return any(
        instruction.opcode in dis.hasconst and instruction.arg == 0 for instruction in dis.get_instructions(code)
    )
