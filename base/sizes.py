"""Sizes as texts."""

from __future__ import annotations


def size_text(size: float) -> str:
    """Three digits and a unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def share_text(share: float) -> str:
    """In percent. What is a little less than the whole is never called 100 %."""
    percent = f"{100 * share:.3g}"
    return f"{'99.9' if percent == '100' and share < 1 else percent} %"
