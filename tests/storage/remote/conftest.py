"""Stores for the tests of the checkpoint store."""

from __future__ import annotations
