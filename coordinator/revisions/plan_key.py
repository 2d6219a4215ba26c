"""What a project is known by between two processes that have planned it: a short text that is equal for equal definitions.

The text of a plan document is not equal, because pickles of functions in Python differ between processes. A circuit has the digests of
functions instead (stepwell/planning/function_digest.py).
"""

from __future__ import annotations

import json

import xxhash

from coordinator.revisions.leaves import HasLeaves, leaves_of


def key_of_project(project: HasLeaves) -> str:
    """Returns a hash of the circuit, the sources and the outputs. Nothing that any start may change is part of it, such as a policy for
    malformed messages."""
    begins = sorted((source.table.handle, source.starting_offsets) for source in project.inputs)
    parts = [project.circuit.fingerprint, leaves_of(project).model_dump_json(), json.dumps(begins)]
    return xxhash.xxh3_128_hexdigest("\n".join(parts).encode())
