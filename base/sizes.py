"""Sizes as texts."""

from __future__ import annotations


def size_text(size: float) -> str:
    """Three digits and a unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
