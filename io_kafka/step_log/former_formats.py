"""Reads the records of the former formats of the step log.

format   what can be done with its log
3        A run goes on with its state. Its records have the form of today, but no division fills new nodes, and its snapshots have only the
         revision in force, because there were no transitions.
2        A run goes on with its state. It has `circuit` and `leaves` in place of `revision`, and its snapshots do not say at which offset
         each input began.
1        A full refresh replaces it, and needs to know the outputs and their ends, which its records name as they do today. The state cannot be
         opened any more: of layouts and checkpoints is only known that they were there (`Former`).
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode
from typing import Literal

from io_kafka.step_log.form import FORMAT_VERSION, RecordBase
from io_kafka.step_log.leaves import OutputLeaf, SourceLeaf

READABLE_FORMATS, REPLACEABLE_FORMAT = (2, 3), 1

_UNKNOWN_KINDS = ("layout", "checkpoint_intent", "checkpoint_complete")

COMPRESSED = "zlib:"
"""What a compressed circuit begins with: the rest is base64 of what zlib made of it. JSON never begins so."""


class Former(RecordBase):
    """A record of format 1 that says something of the state. No run can use the state. This class is never written."""

    kind: Literal["former"] = "former"


class CircuitRecord(RecordBase):
    """The circuit that the state belongs to, in format 2. `circuit` is its own JSON, as text, of which `fingerprint` is the hash. A long one is
    compressed. This class is never written."""

    kind: Literal["circuit"] = "circuit"
    fingerprint: str
    circuit: str

    @property
    def text(self) -> str:
        """The circuit's JSON."""
        if not self.circuit.startswith(COMPRESSED):
            return self.circuit
        return zlib.decompress(b64decode(self.circuit.removeprefix(COMPRESSED))).decode()


class LeavesRecord(RecordBase):
    """The sources and the topics of the outputs that the state belongs to, in format 2. It comes once in a generation: with the circuit, or at
    the first start of a version that knows this record. This class is never written."""

    kind: Literal["leaves"] = "leaves"
    sources: tuple[SourceLeaf, ...]
    outputs: tuple[OutputLeaf, ...]


def as_present(value: bytes) -> bytes:
    """A message of a former format in the form of the present one. Any other message is returned as it is."""
    try:
        plain = json.loads(value)
        if not isinstance(plain, dict) or plain.get("format") not in (*READABLE_FORMATS, REPLACEABLE_FORMAT):
            return value
    except ValueError:
        return value
    if plain["format"] == REPLACEABLE_FORMAT:
        if plain.get("kind") in _UNKNOWN_KINDS:
            plain = {"format": REPLACEABLE_FORMAT, "epoch": plain.get("epoch"), "kind": "former"}
        elif plain.get("kind") == "snapshot":
            plain |= {"intent": None, "checkpoints": [], "layout": None, "change": None, "turns": [], "is_former": True}
    if plain.get("kind") == "snapshot" and (revision := plain.pop("revision", None)) is not None:
        plain["revisions"] = {"root": revision, "in_force": revision}
    return json.dumps(_in_present_form(plain)).encode()


def _in_present_form(part: object) -> object:
    """Returns a record in its present form, and also the records within a snapshot, each of which says its format."""
    if isinstance(part, list):
        return [_in_present_form(each) for each in part]
    if isinstance(part, dict):
        changed = {name: _in_present_form(each) for name, each in part.items()}
        return (
            {**changed, "format": FORMAT_VERSION}
            if isinstance(part.get("format"), int) and "epoch" in part
            else changed
        )
    return part
