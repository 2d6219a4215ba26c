"""Arrow knows pandas only where something has imported pandas.

The first `pyarrow.array` of a list imports pandas, to find out whether the list is an object of pandas. That takes 0.2 s of processor time and
30 MB in every process, and nothing of ours uses pandas. So the rooms whose modules make arrays call `leave_pandas_out` before anything else.
Whoever imports pandas afterwards, such as a definition or PySpark for a function of a user, gets it as usual. From then on Arrow knows its
objects.

How it works: Arrow asks once, by an import, and goes on without pandas if that fails. It asks a second time where it cannot do without, as in
`to_pandas`. This is no public interface of Arrow, whose minor version is fixed; tests/base/test_pandas_later.py says what is relied on.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

PANDAS = "pandas"


def leave_pandas_out() -> None:
    """Lets Arrow find no pandas, unless it is imported already. May be called again."""
    if PANDAS in sys.modules or any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    import pyarrow as pa

    finder.refuses = True
    try:
        pa.array([0])  # Arrow asks now
    finally:
        finder.refuses = False


class _Finder(MetaPathFinder):
    """Refuses pandas to Arrow, and later tells Arrow of the pandas that another one imports."""

    refuses = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != PANDAS:
            return None
        if self.refuses:
            raise ModuleNotFoundError(f"{fullname} is not looked for", name=fullname)
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Telling(spec.loader)
        return spec


class _Telling(Loader):
    """Loads pandas, and has Arrow ask again."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        from pyarrow import lib

        lib._pandas_api.compat  # noqa: B018  its value is not wanted: it asks
