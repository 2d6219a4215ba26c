"""What the databases of a storage folder belong to, written down beside them: `circuit.json`.

Guarantees: whoever reads the folder alone, without asking Kafka, knows the circuit, the workers and the shards of its state. The step log
stays the authority; the file is made from it before the first step of every run, and replaced as a whole.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

CIRCUIT_FILE = "circuit.json"


@dataclass(frozen=True)
class StateOwner:
    """`circuit` is the circuit's own JSON, as text; `fingerprint` is that text's."""

    pipeline: str
    fingerprint: str
    circuit: str
    workers: int
    shards: int

    def write(self, folder: Path, pid: int) -> None:
        """Does nothing where the file says so already. `pid`: of this process, so that two runs do not write one draft."""
        if read_owner(folder) == self:
            return
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{CIRCUIT_FILE}.{pid}"
        draft.write_text(json.dumps(asdict(self), indent=1))
        draft.rename(folder / CIRCUIT_FILE)


def read_owner(folder: Path) -> StateOwner | None:
    """None where there is no such file, or one that cannot be understood."""
    try:
        found = json.loads((folder / CIRCUIT_FILE).read_text())
        return StateOwner(
            str(found["pipeline"]),
            str(found["fingerprint"]),
            str(found["circuit"]),
            int(found["workers"]),
            int(found["shards"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
