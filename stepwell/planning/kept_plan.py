"""The plan of a project, kept in its state folder under the content of the project's files. A service that starts again
need not wait for Spark's analyser then, which takes as long as the start of Spark itself.

Guarantees: a kept plan is used only if no file of the project, no setting and no version has changed since it was made, and only if the file is
whole. What a definition reads from elsewhere, such as the environment, does not show in the key. So a service that runs a kept plan plans the
project again beside its first steps, and ends with DefinitionsChanged if the result differs. Files that have changed meanwhile, which `stepwell
apply` takes, cannot be compared with it, and the run goes on.
"""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import xxhash

from base.logger import Logger
from base.whole_file import write_whole
from stepwell.errors import FilesGone, StepwellError
from stepwell.planning.installed import installed_digest, size_and_time
from stepwell.planning.pipeline import PlannedProject
from stepwell.planning.project_folder import own_folders
from stepwell.project.loading import Project

_log = Logger("stepwell.planning.kept_plan")

KEPT_FILE = "plan"

FILES_MAX = 2_000
"""A project folder with more files is not a folder of definitions alone, and to look at them all would take longer than it saves."""

FILE_BYTES_MAX = 4 << 20
"""Larger files are compared by size and time alone, because they are data."""

LOG_SUFFIX = ".log"
"""No definition reads a log, and a service that writes its own into the project's folder changes it at every start."""

BUNDLE_PREFIX = "stepwell-bundle"
"""The prefix of the names of the archives of `stepwell bundle`, which lie in the folder where the command was called."""

LOOK_SECONDS = 0.2
"""Between two looks whether the check may begin."""

DELAY_SECONDS = 10.0
"""From the first step to the check, which needs a core for some seconds. What came while the service was down comes first."""


class DefinitionsChanged(StepwellError):
    """The definitions give another plan than before, though no file of the project has changed."""


def content_key(project: Project) -> str | None:
    """A hash of everything that the plan should depend on. None if the project's folder has too many files."""
    state = xxhash.xxh3_128()
    about = (project.name, project.libraries, project.storage, project.settings)
    state.update(repr((installed_digest(), *about)).encode())
    for count, path in enumerate(_files(project.root, project.storage)):
        if count >= FILES_MAX:
            return None
        state.update(str(path.relative_to(project.root)).encode())
        state.update(path.read_bytes() if path.stat().st_size <= FILE_BYTES_MAX else size_and_time(path))
    return state.hexdigest()


def _files(root: Path, storage: Path) -> Iterator[Path]:
    """The files of the project's own folders, in a fixed order, without logs and bundles."""
    written = _own_outputs()
    for folder, _, names in own_folders(root, storage):
        for path in (folder / name for name in names if not _is_output(name)):
            if path.is_file() and (path.stat().st_dev, path.stat().st_ino) not in written:
                yield path


def _is_output(name: str) -> bool:
    return name.endswith(LOG_SUFFIX) or name.startswith(BUNDLE_PREFIX)


def _own_outputs() -> set[tuple[int, int]]:
    """Device and inode of what this process has for standard output and standard error, if anything."""
    found = set()
    for stream in (1, 2):
        with suppress(OSError):
            status = os.fstat(stream)
            found.add((status.st_dev, status.st_ino))
    return found


def read_plan(project: Project, key: str | None) -> PlannedProject | None:
    """The plan that is kept under `key`, if there is one and it is whole."""
    try:
        found = (project.state_folder / KEPT_FILE).read_bytes()
    except OSError:
        return None
    head, _, body = found.partition(b"\n")
    if key is None or head.decode(errors="replace") != f"{key} {xxhash.xxh3_128_hexdigest(body)}":
        return None
    plan = pickle.loads(body)  # its checksum has been verified, and the folder is the user's own
    return plan if isinstance(plan, PlannedProject) else None


def write_plan(project: Project, key: str | None, plan: PlannedProject) -> None:
    """Keeps the plan for the next start. That this fails only costs the next start time."""
    if key is None:
        return
    body = pickle.dumps(plan)
    head = f"{key} {xxhash.xxh3_128_hexdigest(body)}\n".encode()
    try:
        project.state_folder.mkdir(parents=True, exist_ok=True)
        write_whole(project.state_folder / KEPT_FILE, head + body)
    except OSError as fault:
        _log.info("the plan is not kept", reason=str(fault))


def forget_plan(project: Project) -> None:
    (project.state_folder / KEPT_FILE).unlink(missing_ok=True)


class PlanCheck:
    """While it is entered, plans the project again in a thread of its own, and compares. `is_due`: whether it may begin; `stop` asks the run
    to stop. `key`: under which the plan was kept."""

    def __init__(
        self,
        project: Project,
        kept: PlannedProject,
        make: Callable[[], PlannedProject],
        is_due: Callable[[], bool],
        stop: Callable[[], None],
        *,
        key: str | None,
    ) -> None:
        self._project, self._kept, self._make, self._is_due, self._stop = project, kept, make, is_due, stop
        self._key = key
        self._over = threading.Event()
        self._found: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="plan check", daemon=True)

    def __enter__(self) -> PlanCheck:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """The run has ended. Raises what the check found, unless the run has raised itself."""
        self._over.set()
        if self._found is not None and error is None:
            raise self._found

    def _run(self) -> None:
        while not self._is_due():
            if self._over.wait(LOOK_SECONDS):
                return
        if self._over.wait(DELAY_SECONDS):
            return
        try:
            differs = not self._make().is_same(self._kept)
        except FilesGone as error:  # they were read at the first start, and nothing says that a definition has changed
            _log.warning("the kept plan could not be compared", reason=str(error)[:500])
        except StepwellError as error:  # the definitions do not even make a plan any more
            self._give_up(error)
        except Exception as error:
            _log.warning("the kept plan could not be compared", reason=f"{type(error).__name__}: {error}"[:500])
        else:
            if differs:
                self._give_up(
                    DefinitionsChanged(
                        "the definitions give another pipeline than at the start before, though no file of the project has changed: they "
                        "depend on something else, such as an environment variable.",
                        "The run has stopped at a checkpoint. Run again, which reads the definitions first.",
                    )
                )

    def _give_up(self, error: Exception) -> None:
        if self._over.is_set():
            return
        if content_key(self._project) != self._key:
            _log.warning("the kept plan is not compared: files of the project have changed since the start")
            return
        forget_plan(self._project)
        self._found = error
        self._stop()
