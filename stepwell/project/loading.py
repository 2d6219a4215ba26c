"""The project: its file, the settings in it, and the folders that it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from base.spark_master import LOCAL, MASTER_KEY, is_local
from stepwell.errors import Location, ProjectError
from stepwell.project.settings import Settings, load_settings
from stepwell.project.spec_file import find_spec, read_spec

if TYPE_CHECKING:
    from storage.host_folder import HostFolder

# Stepwell keeps its files in a separate folder inside the project's storage, beside the files of Spark.
STATE_FOLDER = "stepwell"


@dataclass(frozen=True)
class Project:
    """A project file. `root` is absolute, and `libraries` are globs relative to it. `storage` is a local folder, which may not exist yet.
    `catalog` and `database`: of Spark, in which tables are looked up that the project does not define; None means Spark's default."""

    name: str
    root: Path
    spec_file: Path
    storage: Path
    libraries: tuple[str, ...]
    settings: Settings
    catalog: str | None = None
    database: str | None = None

    @property
    def state_folder(self) -> Path:
        return self.storage / STATE_FOLDER

    @property
    def on_cluster(self) -> bool:
        """Whether workers may run on other hosts."""
        return not is_local(self.settings.spark.get(MASTER_KEY, LOCAL))

    @property
    def databases(self) -> HostFolder:
        """The folder of this host, in local mode."""
        from storage.host_folder import StateLocation  # loads LMDB, which most commands do not need

        return StateLocation(self.name, self.state_folder, self.settings.stepwell.local_dir, self.on_cluster).here

    def definition_files(self) -> list[Path]:
        """The files that match the globs, each once, sorted by path. (Spark takes the order from the file system.)"""
        files = {
            path
            for pattern in self.libraries
            for path in self.root.glob(pattern)
            if path.is_file() and "__pycache__" not in path.parts
        }
        return sorted(files)


def load_project(
    spec: Path | None = None,
    flags: Mapping[str, str] | None = None,
    start: Path | None = None,
    *,
    may_lack: bool = False,
) -> Project:
    """Finds and reads the project file. `flags` are settings, by full key, which override those in the file. `may_lack`: values of settings that
    stand elsewhere may be missing, because only a running service is asked.

    Raises ProjectError or SettingsError.
    """
    spec_file = find_spec(start or Path.cwd(), spec)
    content = read_spec(spec_file)
    root = spec_file.parent
    return Project(
        name=content.name,
        root=root,
        spec_file=spec_file,
        storage=_storage(content.storage, root, spec_file),
        libraries=content.globs,
        settings=load_settings(content.configuration, flags, may_lack=may_lack),
        catalog=content.catalog,
        database=content.database if content.schema_ is None else content.schema_,
    )


def _storage(storage: str, root: Path, spec_file: Path) -> Path:
    url = urlparse(storage)
    if url.scheme not in ("", "file"):
        raise ProjectError(
            f"storage: {storage} is not on this machine",
            "State lives in local files: give a path or a file: URI.",
            location=Location(spec_file.name),
        )
    return (root / (unquote(url.path) if url.scheme else storage)).resolve()
