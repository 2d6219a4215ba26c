"""The form in which the service sends what views hold: a line of JSON, and then one Arrow IPC stream for each view.

{"version": {...}, "lengths": [...]}\\n
stream of the first view, stream of the second view, ...
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

import pyarrow as pa

from base.version import VersionId


def encode_views(version: VersionId, streams: Sequence[pa.Buffer]) -> bytes:
    head = {"version": asdict(version), "lengths": [stream.size for stream in streams]}
    return b"".join([json.dumps(head).encode(), b"\n", *(stream.to_pybytes() for stream in streams)])


def decode_views(body: bytes) -> tuple[VersionId, list[pa.Table]]:
    """Raises ValueError if the body is not complete."""
    head, _, rest = body.partition(b"\n")
    fields = json.loads(head)
    tables, at = list[pa.Table](), 0
    for length in fields["lengths"]:
        if at + length > len(rest):
            raise ValueError(f"the answer has {len(rest)} bytes, and its views have more")
        tables.append(pa.ipc.open_stream(pa.py_buffer(rest[at : at + length])).read_all())
        at += length
    return VersionId(**fields["version"]), tables
