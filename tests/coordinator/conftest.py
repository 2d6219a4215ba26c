"""The coordinator's tests play with whole pipelines, as the end-to-end tests do."""

from __future__ import annotations

from tests.end_to_end.conftest import play

__all__ = ["play"]
