"""Which cases of a long list the suite runs, and which only `make test-long` does."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], every: int, keep: Collection[Any] = (), *, several: bool = False) -> list[Any]:
    """The first case of `every` that follow each other, and those of `keep`; the others are long. For lists of which a case seldom fails
    alone, because other tests stand for what it has. A breakage that names a case by its id needs it in `keep`. A breakage that names the
    whole test may be noticed by one of its cases alone: after a list was sampled, run the breakages that name its test. `several`: each
    case is a tuple of several arguments."""
    return [
        case
        if number % every == 0 or case in keep
        else pytest.param(*(case if several else (case,)), marks=pytest.mark.long)
        for number, case in enumerate(cases)
    ]
