"""What decides the bytes that a worker writes: two workers of one run must agree on it.

A replay compares digests. So a step that was computed with one release of a library cannot be replayed with another one that rounds or sorts
differently. Stepwell's own release is not part of it, because most releases change no output byte; `OUTPUT_EDITION` grows with one that does.
"""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError, version

from engine.resident.frames import WIRE_VERSION
from io_kafka.formats.encode import ENCODER_ID

OUTPUT_EDITION = 1
"""To be raised with a change of Stepwell after which a step may have other output bytes."""

LIBRARIES = ("duckdb", "numpy", "pyarrow", "tzdata", "xxhash")
"""The libraries whose results reach the output."""


def own_release() -> str:
    """Stepwell's, as it is installed where this process runs. "unknown" if only its code is there."""
    try:
        return version("stepwell")
    except PackageNotFoundError:
        return "unknown"


def fingerprint() -> str:
    """Returns the fingerprint as a text, which is the same on every machine that computes the same bytes."""
    parts = {
        "wire": WIRE_VERSION,
        "edition": OUTPUT_EDITION,
        "encoder": ENCODER_ID,
        "machine": platform.machine(),
        "libc": "-".join(platform.libc_ver()),
        **{name: version(name) for name in LIBRARIES},
    }
    return json.dumps(parts, sort_keys=True)
