"""The file `circuit.json`, which says what the databases of a storage folder belong to.

Guarantee: a reader of the folder knows the circuit and the databases of the state without asking Kafka. The step log stays the
authority: every run writes the file from it before its first step, and replaces the file as a whole.

The databases are those of the layout that was settled last. While it changes there may be others, and one that owns nothing any more may be
gone. So a reader looks at all folders that are there, and counts those that own slots.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from base.whole_file import write_whole
from engine.analysis.marking import Marks
from engine.analysis.release import ImplementationVersions

CIRCUIT_FILE = "circuit.json"


@dataclass(frozen=True)
class StateOwner:
    """`circuit` is the circuit's own JSON, as text. `fingerprint` is the fingerprint of that text. `numbers`: of its nodes
    (engine/model/numbers.py). `databases`: the names of the folders of the workers' databases. `until`: versions that were taken before a
    later step than this one have the views of another circuit, which the file gets when one of them is complete; None: all have these. `since`:
    versions that were taken before an earlier step than this one have those of a former circuit. A run goes back to such a version if disks are
    lost, or if a backup is restored. `marks`: which the circuit of the files lacks (engine/analysis/marking.py). `made_with`: the revisions of
    what the views were computed with (engine/analysis/release.py)."""

    pipeline: str
    fingerprint: str
    circuit: str
    numbers: tuple[int, ...]
    databases: tuple[str, ...]
    until: int | None = None
    since: int = 0
    marks: Marks = field(default_factory=dict)
    made_with: ImplementationVersions = field(default_factory=dict)

    def write(self, folder: Path, pid: int) -> None:
        """Writes the file, unless it has this content already. `pid` is this process's."""
        if read_owner(folder) == self:
            return
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / CIRCUIT_FILE, json.dumps(asdict(self), indent=1), pid=pid)


def read_owner(folder: Path) -> StateOwner | None:
    """The content of the folder's file. None if there is no such file, or if it cannot be parsed."""
    try:
        found = json.loads((folder / CIRCUIT_FILE).read_text())
        circuit = str(found["circuit"])
        return StateOwner(
            str(found["pipeline"]),
            str(found["fingerprint"]),
            circuit,
            # A file of a version that knew no numbers: the index was the number.
            tuple(map(int, found["numbers"] if "numbers" in found else range(len(json.loads(circuit))))),
            tuple(str(name) for name in found["databases"]),
            until=found.get("until"),
            since=int(found.get("since", 0)),
            marks={str(view): dict(marked) for view, marked in found.get("marks", {}).items()},
            made_with={str(name): int(number) for name, number in found.get("made_with", {}).items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
