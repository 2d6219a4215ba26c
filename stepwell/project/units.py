"""Durations and sizes in Spark's notation."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

_TIME_UNIT_SECONDS = {
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hour": 3600.0, "hours": 3600.0,
    "d": 86400.0, "day": 86400.0, "days": 86400.0,
}  # fmt: skip
_BYTE_UNIT = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_duration(value: Any) -> float:
    """The seconds of a duration in Spark's notation: `500ms`, `10s`, `2min`, `1h`, `10 seconds`."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", str(value).lower())
    if match is None or match[2] not in _TIME_UNIT_SECONDS:
        raise ValueError("is not a duration: write a number and a unit, such as 500ms, 10s, 2min or 1h")
    return float(match[1]) * _TIME_UNIT_SECONDS[match[2]]


def parse_bytes(value: Any) -> int:
    """The bytes of a size in Spark's notation: `64m`, `1g`, `65536`."""
    match = re.fullmatch(r"\s*(\d+)\s*(?:([bkmgt])(?:i?b)?)?\s*", str(value).lower())
    if match is None:
        raise ValueError("is not a size: write a number of bytes, or one with a unit, such as 64m or 1g")
    return int(match[1]) * _BYTE_UNIT[match[2] or "b"]


Duration = Annotated[float, BeforeValidator(lambda v: v if isinstance(v, float) else parse_duration(v))]
DurationOrNever = Annotated[
    Annotated[float, Field(ge=1, le=86400)] | None,
    BeforeValidator(lambda v: None if v == "never" else v if v is None or isinstance(v, float) else parse_duration(v)),
]
"""None means never."""
Bytes = Annotated[int, BeforeValidator(parse_bytes)]
