"""Integers and booleans as text."""

from __future__ import annotations

import re

from base.text.trimming import SPARK_BLANK

_INTEGER = re.compile(r"[+-]?[0-9]++")
INTEGER_DIGITS_MAX = 19  # of 2^63: more are an overflow, and Python refuses to read thousands
_TRUE, _FALSE = frozenset({"t", "true", "y", "yes", "1"}), frozenset({"f", "false", "n", "no", "0"})


def integer_value(text: str, bits: int) -> int | None:
    """An integer of `bits` bits from text, as CAST reads it; None if the text is no integer or does not fit."""
    trimmed = text.strip(SPARK_BLANK)
    if not _INTEGER.fullmatch(trimmed):
        return None
    if len(trimmed) > INTEGER_DIGITS_MAX:
        digits = trimmed.lstrip("+-").lstrip("0") or "0"
        if len(digits) > INTEGER_DIGITS_MAX:
            return None
        trimmed = f"-{digits}" if trimmed.startswith("-") else digits
    value = int(trimmed)
    return value if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None


def boolean_value(text: str) -> bool | None:
    """A BOOLEAN from text, as CAST reads it."""
    word = text.strip(SPARK_BLANK).lower()
    return True if word in _TRUE else False if word in _FALSE else None
