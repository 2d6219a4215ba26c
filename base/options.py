"""The words with which a table of a project says how it is read or written."""

from __future__ import annotations

from typing import Literal

Mode = Literal["append", "upsert", "changelog"]
"""What a message means for the rows of a table, as a source and as an output."""

OnError = Literal["fail", "skip", "dead-letter"]
"""What becomes of a malformed message of a source."""
