"""The circuit of a project, kept in its state folder under the query_key of its files, so that a query which needs no Spark knows the views."""

from __future__ import annotations

from engine.model.circuit import Circuit
from stepwell.planning.kept_folder import KeptFolder
from stepwell.project.loading import Project

KEPT_FOLDER = "circuits"


def read_circuit(project: Project, key: str | None) -> Circuit | None:
    """The circuit that is kept under `key`; None if there is none."""
    return None if key is None else _folder(project).get(key)


def keep_circuit(project: Project, key: str | None, circuit: Circuit) -> None:
    """Keeps the circuit of these files alone. That this fails only costs time."""
    if key is None or not project.state_folder.is_dir():
        return
    folder = _folder(project)
    if folder.get(key) is None:
        folder.put(key, circuit)
        folder.save(is_whole=True)


def _folder(project: Project) -> KeptFolder:
    return KeptFolder(project.state_folder / KEPT_FOLDER)
