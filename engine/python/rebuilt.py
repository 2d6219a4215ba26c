"""What a worker builds again of an object in a function's pickle whose own pickle is only its name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def cached(function: Callable[..., Any], maxsize: int | None, typed: bool) -> Callable[..., Any]:
    """`functools.lru_cache` around a function of the project's: each process has a cache of its own."""
    return functools.lru_cache(maxsize, typed)(function)
