"""Day-time intervals as text."""

from __future__ import annotations

from base.text.timestamps import DAY_US


def interval_text(us: int) -> str:
    """INTERVAL '1 02:03:04.5' DAY TO SECOND."""
    number, rest = divmod(abs(us), DAY_US)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    decimals = f".{fraction:06d}".rstrip("0") if fraction else ""
    return f"INTERVAL '{'-' if us < 0 else ''}{number} {clock}{decimals}' DAY TO SECOND"
