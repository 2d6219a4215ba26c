"""Digests of schemas, for what identifies the format of a source: everything that decides which row a message gives.

Left out, each with its reason: the address of a registry and its password, because a registry that moves has the same schemas; the comments
(`doc`) and the spelling of an Avro schema, because they change no value.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

DIGEST_LETTERS = 16


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()[:DIGEST_LETTERS]}"


def digest_of_schema(text: str) -> str:
    return digest_of(json.dumps(_without_comments(json.loads(text)), sort_keys=True).encode())


def _without_comments(schema: Any) -> Any:
    """A default is a value, in which `doc` may be the name of a field."""
    if isinstance(schema, list):
        return [_without_comments(part) for part in schema]
    if isinstance(schema, dict):
        return {
            name: part if name == "default" else _without_comments(part)
            for name, part in schema.items()
            if name != "doc"
        }
    return schema
