"""Some tests of the coordinator use whole pipelines, with the fixtures of the end-to-end tests."""

from __future__ import annotations

from tests.end_to_end.conftest import play

__all__ = ["play"]
