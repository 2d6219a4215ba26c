"""Reads what the former format of the step log says of claims, topics and outputs.

A log of the former format belongs to a state that cannot be opened any more. A full refresh replaces it, and needs to know the outputs and
their ends, which are told as they are today. Layouts and checkpoints are not: of them only is known that they were there (`Former`)."""

from __future__ import annotations

import json
from typing import Literal

from io_kafka.step_log.form import FORMAT_VERSION, RecordBase

FORMER_FORMAT = 1

_UNKNOWN_KINDS = ("layout", "checkpoint_intent", "checkpoint_complete")


class Former(RecordBase):
    """A record of the former format that says something of the state. No run can use the state. This class is never written."""

    kind: Literal["former"] = "former"


def as_present(value: bytes) -> bytes:
    """A message of the former format in the form of the present one. Any other message is returned as it is."""
    try:
        plain = json.loads(value)
        if not isinstance(plain, dict) or plain.get("format") != FORMER_FORMAT:
            return value
    except ValueError:
        return value
    plain["format"] = FORMAT_VERSION
    if plain.get("kind") in _UNKNOWN_KINDS:
        plain = {"format": FORMAT_VERSION, "epoch": plain.get("epoch"), "kind": "former"}
    elif plain.get("kind") == "snapshot":
        plain |= {"intent": None, "checkpoints": [], "layout": None, "change": None, "turns": [], "is_former": True}
    return json.dumps(plain).encode()
