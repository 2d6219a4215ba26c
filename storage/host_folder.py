"""The folder of a host in which workers keep their databases.

A **host** is such a folder with everything that can open it. In local mode there is one.

    <root>/host.json              names the folder; it is made once
    <databases>/NNNN/             the database of worker NNNN
    <databases>/NNNN-bBIRTH/      that of a worker which a rescale has made
    <databases>/.NNNN.old/        a database that is being removed
    <databases>/.NNNN.spool/      what waits for its upload to the checkpoint store
    <databases>/.NNNN.restored-eN a database that a run of term N makes of what the checkpoint store has

In local mode the databases are in the project's storage folder, and the folder needs no name. With `stepwell.local.dir` the root is that
folder, and each pipeline has a subfolder for its databases. `StateLocation` decides which, and is the same in every process of a run.

Guarantees: `look` changes nothing, and reports a database that cannot be read instead of failing. `remove` removes a database only if it is
still the one that the caller has seen; it renames the folder first, so a crash never leaves half a database under the name of a whole one.

The name of a folder is not part of anything durable. It only tells the coordinator, within one start, that two processes see the same databases.
So it is not synced, and it changes if the folder was copied or the machine was started again. If processes replace a torn name at
the same moment, they may return different ones for one start. Then the databases count as copies of each other, and each is bound once.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from faults.points import reached
from storage import database, durable
from storage.database import Database
from storage.errors import NoDatabase, OtherFormat, StorageError
from storage.identity import FIRST_BIRTH, FoundDatabase, UnneededDatabase
from storage.new_database import REMOVED_SUFFIX, set_aside

LOCAL_DIR_VARIABLE = "STEPWELL_LOCAL_DIR"
"""The environment variable of an executor that names the folder for databases. It precedes the setting, because each host of a cluster may have
another folder."""

HOST_FILE = "host.json"

WORKERS_FOLDER = "workers"

_FOLDER = re.compile(r"(?P<worker>\d+)(-b(?P<birth>.+))?", re.ASCII)

SPOOL_SUFFIX = ".spool"
"""The suffix of the folder of a worker's spool (storage/remote/spool.py)."""

RESTORED_SUFFIX = ".restored-e"
"""The suffix of a database that is made of what the checkpoint store has, until it replaces the one that is there. The number of the term
follows."""

NAMING_TRIES_MAX = 16
"""A try fails only if another process of the host names the folder at the same moment, and then the next one finds that name."""


@dataclass(frozen=True)
class StateLocation:
    """Where hosts keep the databases of a pipeline. `storage` is the project's folder on the driver's host, and `local_dir` the setting
    `stepwell.local.dir`. `on_cluster`: the workers may run on other hosts than the driver."""

    pipeline: str
    storage: Path
    local_dir: Path | None
    on_cluster: bool

    def on_host(self, variable: Path | None) -> HostFolder | None:
        """The folder of a host whose executor has `variable` in STEPWELL_LOCAL_DIR. None if nothing names it: the project's folder is no
        answer on a cluster, because it is on the driver's host. In local mode the settings have read the variable already, so it is not
        looked at again: a flag goes before it there."""
        root = (variable or self.local_dir) if self.on_cluster else self.local_dir
        if root is not None:
            return HostFolder(root, root / self.pipeline / WORKERS_FOLDER)
        return None if self.on_cluster else HostFolder(self.storage, self.storage / WORKERS_FOLDER)

    @property
    def here(self) -> HostFolder:
        """The folder of this host, in local mode."""
        folder = self.on_host(None)
        assert folder is not None and not self.on_cluster, "on a cluster, the hosts of the workers have the databases"
        return folder


@dataclass(frozen=True)
class HostFolder:
    """The folder in which a host keeps the databases of its workers. `root` has the file that names the folder, and `databases` a subfolder
    for each worker."""

    root: Path
    databases: Path

    def of_worker(self, worker: int, birth: str = FIRST_BIRTH) -> Path:
        """The folder of a worker's database."""
        return self.databases / database_folder(worker, birth)

    def spool_of_worker(self, worker: int, birth: str = FIRST_BIRTH) -> Path:
        """The folder of what waits for its upload to the checkpoint store. It goes with the database."""
        return self.databases / f".{database_folder(worker, birth)}{SPOOL_SUFFIX}"

    def restored_of_worker(self, worker: int, birth: str, epoch: int) -> Path:
        """Where a run makes a database of what the checkpoint store has."""
        return self.databases / f".{database_folder(worker, birth)}{RESTORED_SUFFIX}{epoch}"

    def remove_restored(self, worker: int, birth: str, epoch: int) -> None:
        """Removes what runs of this term and of earlier ones have made there and have not put in its place."""
        form = re.compile(rf"\.{re.escape(database_folder(worker, birth))}{re.escape(RESTORED_SUFFIX)}(\d+)", re.ASCII)
        if self.databases.exists():
            for folder in sorted(self.databases.iterdir(), key=lambda f: f.name):
                named = form.fullmatch(folder.name)
                if named is not None and int(named[1]) <= epoch:
                    shutil.rmtree(folder, ignore_errors=True)

    def name(self, new_id: Callable[[], str]) -> str:
        """The name of the folder, which is made if it has none. It differs from the name of every other folder, also of a copy on this machine
        or on another one; containers of one machine that share the folder see the same name. Raises OSError."""
        durable.make_folders(self.databases.parent)
        if self.databases.parent != self.root:
            durable.sync(self.root)  # a process that was killed may have made the pipeline's folder without syncing it
        file = self.root / HOST_FILE
        for _ in range(NAMING_TRIES_MAX):
            is_there = file.exists()
            known = self._read_name(file)
            if known is not None:
                return f"{known}.{database.boot_id()}"
            draft = self.root / f".{HOST_FILE}.{new_id()}"
            draft.write_text(json.dumps({"host": new_id(), "folder": _inode(self.root)}))
            if is_there:
                # It was torn by a crash of the machine, or it is that of the folder from which this one was copied.
                draft.rename(file)
                continue
            try:
                file.hardlink_to(draft)
            except FileExistsError:
                pass  # another process was faster, and its name counts
            finally:
                draft.unlink(missing_ok=True)
        raise OSError(f"{file} is replaced again and again by other processes")

    def _read_name(self, file: Path) -> str | None:
        """None if there is no file, if it is torn, or if it was copied with its folder."""
        try:
            found = json.loads(file.read_text())
            return str(found["host"]) if found["folder"] == _inode(self.root) else None
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def names(self) -> list[str]:
        """Returns the names of the folders of databases that are here, in order."""
        if not self.databases.exists():
            return []
        return sorted(folder.name for folder in self.databases.iterdir() if _FOLDER.fullmatch(folder.name))

    def free_bytes(self) -> int:
        """The free bytes of the disk on which the databases are, or will be. Raises OSError."""
        folder = self.databases
        while not folder.exists():
            folder = folder.parent
        return int(shutil.disk_usage(folder).free)

    def look(self) -> tuple[FoundDatabase, ...]:
        """The databases that are here, by worker. Empty folders do not count. Raises OSError if the folder itself cannot be read."""
        found = (_look_at(self.databases / name) for name in self.names())
        return tuple(each for each in found if each is not None)

    def remove(self, database: UnneededDatabase) -> bool:
        """Removes the database if its identity is still the same. Returns whether it was."""
        worker, birth, identity = database
        folder = self.of_worker(worker, birth)
        found = _look_at(folder)
        if found is None or found.identity != identity:
            return False
        removed = set_aside(folder)
        if removed is None:
            return False
        reached("bury.renamed", worker)
        shutil.rmtree(removed, ignore_errors=True)
        shutil.rmtree(self.spool_of_worker(worker, birth), ignore_errors=True)
        return True

    def finish_removals(self) -> None:
        """Deletes what a process that was killed has renamed and not deleted."""
        if self.databases.exists():
            for folder in sorted(self.databases.iterdir(), key=lambda f: f.name):
                if folder.name.endswith(REMOVED_SUFFIX):
                    shutil.rmtree(folder, ignore_errors=True)


def database_folder(worker: int, birth: str) -> str:
    """The name of the folder of a worker's database."""
    return f"{worker:04d}" if birth == FIRST_BIRTH else f"{worker:04d}-b{birth}"


def _look_at(folder: Path) -> FoundDatabase | None:
    """None if there is no database."""
    named = _FOLDER.fullmatch(folder.name)
    assert named is not None, f"{folder} is no folder of a database"
    worker, birth = int(named["worker"]), named["birth"] or FIRST_BIRTH
    try:
        if not folder.exists() or not any(folder.iterdir()):
            return None
        facts = Database.facts(folder)
        return FoundDatabase(worker, facts.identity, facts.versions, facts.disk_bytes, birth=birth)
    except OtherFormat as other:
        return FoundDatabase(worker, other.owner, versions=(), disk_bytes=0, fault=str(other), birth=birth)
    except NoDatabase as fault:
        # Another process may have removed it just now.
        if not folder.exists():
            return None
        return FoundDatabase(worker, None, versions=(), disk_bytes=0, fault=str(fault), birth=birth)
    except (StorageError, OSError) as fault:
        return FoundDatabase(worker, None, versions=(), disk_bytes=0, fault=str(fault), birth=birth)
    finally:
        Database.close(folder)  # most of them are another worker's


def _inode(folder: Path) -> int:
    return folder.stat().st_ino
