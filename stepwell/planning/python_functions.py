"""The user's functions in a plan: from the pickles in Spark's expressions to functions that a circuit can keep.

Guarantees: an unchanged function has the same digest in every process. Its pickle holds what it needs of the project's own modules by value, so
that workers on other hosts need no file of the project. What a worker could not run is refused, with the view, its file and line.
"""

from __future__ import annotations

import functools
import inspect
import io
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import Accumulator
from pyspark.cloudpickle import cloudpickle
from pyspark.core.broadcast import Broadcast
from pyspark.serializers import CPickleSerializer

from engine.model.python_call import PythonForm, PythonFunction
from engine.python import rebuilt
from stepwell.catalyst.tree import TreeNode, walk_all
from stepwell.errors import Location, UnsupportedError
from stepwell.planning.function_digest import NoDigest, digest_of
from stepwell.planning.project_modules import is_installed

FUNCTION_BYTES_MAX = 64 << 20
"""The largest number of bytes of a function with all that it refers to. Every worker gets it when it starts, and the kept plan holds it."""

SCALAR_FORMS: Mapping[int, PythonForm] = {
    100: "pickled row",
    101: "row",
    200: "pandas",
    204: "pandas iterator",
    250: "arrow",
    251: "arrow iterator",
}
"""The functions that give one value for each row, by Spark's number (PythonEvalType)."""

GROUP_FORMS: Mapping[int, PythonForm] = {
    202: "pandas group",
    217: "pandas group iterator",
    252: "arrow group",
    254: "arrow group iterator",
}
"""The functions that give one value for each group."""

PROMISE = (
    "Python functions run in it ({names}). Each must give the same result whenever it is called with the same arguments: a row that is "
    "taken back is given to it again, and so is all input of a replay"
)


def mark_functions(tree: TreeNode, view: str, location: Location) -> None:
    """Adds the field `function`, a PythonFunction, to every PythonUDF and PythonUDAF of the tree. Raises UnsupportedError. The working folder is
    the project's."""
    known: dict[bytes, PythonFunction] = {}
    for node in walk_all(tree):
        if node.kind in ("PythonUDF", "PythonUDAF"):
            pickled = node["pickled"]
            if pickled not in known:
                known[pickled] = _function(str(node["name"]), pickled, view, location)
            node.fields["function"] = known[pickled]


def _function(name: str, pickled: bytes, view: str, location: Location) -> PythonFunction:
    def refusal(what: str, what_to_do: str) -> UnsupportedError:
        return UnsupportedError(f"the Python function {name} {what}", what_to_do, view=view, location=location)

    try:
        command = CPickleSerializer().loads(pickled)
        function, _ = command
    except Exception as error:
        raise refusal(
            f"cannot be read back from its pickle: {type(error).__name__}: {error}",
            "It may refer to plain values, functions, classes and modules, and to no broadcast variable.",
        ) from error
    try:
        digest = digest_of(function, _reason)
        with _sent_along():
            sent = _pickle(command)
    except NoDigest as error:
        raise refusal(
            f"refers to {error.what}, of which Stepwell cannot tell whether it has changed",
            "Make it within the function, or pass plain values.",
        ) from error
    except Exception as error:
        raise refusal(
            f"cannot be sent to workers: {error}",
            "Import functions of the project's modules by their names (from helpers import clean), not whole modules.",
        ) from error
    if len(sent) > FUNCTION_BYTES_MAX:
        raise refusal(
            f"is {len(sent) >> 20} MB with all that it refers to; the limit is {FUNCTION_BYTES_MAX >> 20} MB",
            "Read large tables from a topic and join them, or load them within the function from a file that every host has.",
        )
    return PythonFunction(digest, name, _place(function), sent)


def _reason(value: object) -> str | None:
    if isinstance(value, Accumulator):
        return "an accumulator, whose sum would count replayed rows twice"
    if isinstance(value, Broadcast):
        return "a broadcast variable"
    return None


class _Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
    """Also sends a function of the project's behind `functools.lru_cache`, whose pickle would be the name of the file's module, and modules that
    have each other, as a package and its module with `import package.other` do. Such a module is made before what it has."""

    def reducer_override(self, value: Any) -> Any:
        if type(value) is types.ModuleType and not cloudpickle._should_pickle_by_reference(value):
            make, (name, content) = cloudpickle._module_reduce(value)
            return make, (name, {}), content
        if isinstance(value, functools._lru_cache_wrapper) and not is_installed(str(value.__module__)):
            parameters = value.cache_parameters()
            return rebuilt.cached, (value.__wrapped__, parameters["maxsize"], parameters["typed"])
        return super().reducer_override(value)


def _pickle(command: Any) -> bytes:
    with io.BytesIO() as file:
        _Pickler(file).dump(command)
        return file.getvalue()


@contextmanager
def _sent_along() -> Iterator[None]:
    """While the body runs, functions and classes of the project's modules are pickled by value and not by their names. So is what rebuilds them,
    because a recorded pickle outlives an installation, and the names of Stepwell's own modules differ between installations (setup.py)."""
    known = set(cloudpickle.list_registry_pickle_by_value())
    own = [
        module
        for name, module in list(sys.modules.items())
        if name not in known
        and name != "__main__"
        and getattr(module, "__file__", None)
        and (module is rebuilt or not is_installed(name))
    ]
    for module in own:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in own:
            cloudpickle.unregister_pickle_by_value(module)


def _place(function: Callable[..., Any]) -> str:
    """The file and line of the function, relative to the project's folder; empty for one that is not written in Python."""
    found: Any = inspect.unwrap(function)
    while (inner := getattr(found, "func", None)) is not None:
        found = inner  # functools.partial
    code = getattr(found, "__code__", None) or getattr(vars(type(found)).get("__call__"), "__code__", None)
    if code is None:
        return ""
    file = Path(code.co_filename)
    root = Path.cwd()
    return f"{file.relative_to(root) if file.is_relative_to(root) else file}:{code.co_firstlineno}"
