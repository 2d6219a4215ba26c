"""What mutations of the project are made of: see sabotage.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

Mutation = Callable[[], AbstractContextManager[None]]


@contextmanager
def broken(target: Any, name: str, value: Any) -> Iterator[None]:
    with mock.patch.object(target, name, value):
        yield
