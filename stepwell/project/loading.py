"""The project folder: `spark-pipeline.yml`, as `spark-pipelines` reads it, and the settings in it.

Guarantees: a project that loads here also loads in `spark-pipelines`, and the reverse: the fields and globs are the
same. There is one exception: here, numbers and booleans under `configuration:` need no quotes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import yaml
from pyspark.errors import PySparkException
from pyspark.pipelines import cli as spark_cli

from stepwell.errors import Location, ProjectError
from stepwell.project.settings import Settings, load_settings

# Stepwell keeps its files in a separate folder inside the project's storage, beside the files of Spark.
STATE_FOLDER = "stepwell"


@dataclass(frozen=True)
class Project:
    """A project file. `root` is absolute, and `libraries` are globs relative to it. `storage` is a local folder, which may not exist yet."""

    name: str
    root: Path
    spec_file: Path
    storage: Path
    libraries: tuple[str, ...]
    settings: Settings

    @property
    def state_folder(self) -> Path:
        return self.storage / STATE_FOLDER

    def definition_files(self) -> list[Path]:
        """The files that match the globs, each once, sorted by path. (Spark takes the order from the file system.)"""
        files = {
            path
            for pattern in self.libraries
            for path in self.root.glob(pattern)
            if path.is_file() and "__pycache__" not in path.parts
        }
        return sorted(files)


def find_spec(start: Path, spec: Path | None = None) -> Path:
    """The project file: `spec` if it is given, otherwise `spark-pipeline.yml` in `start` or in the nearest folder above it."""
    if spec is not None:
        if not spec.is_file():
            raise ProjectError(f"{spec} is not a file", "Give --spec the path of a spark-pipeline.yml.")
        return spec.resolve()
    try:
        return Path(spark_cli.find_pipeline_spec(start.resolve()))
    except PySparkException as error:
        raise ProjectError(
            f"no project here: {error}",
            "Run this in a project's folder, or give --spec FILE. `stepwell init NAME` makes a new project.",
        ) from None


def load_project(
    spec: Path | None = None, flags: Mapping[str, str] | None = None, start: Path | None = None
) -> Project:
    """Finds and reads the project file. `flags` are settings, by full key, which override those in the file.

    Raises ProjectError or SettingsError.
    """
    spec_file = find_spec(start or Path.cwd(), spec)
    try:
        loaded = spark_cli.unpack_pipeline_spec(_read(spec_file))
    except PySparkException as error:
        raise ProjectError(
            str(error), "See the fields of spark-pipeline.yml.", location=Location(spec_file.name)
        ) from None
    except (KeyError, TypeError):
        raise ProjectError(
            "libraries: is not a list of globs",
            "Write it so:\n    libraries:\n      - glob:\n          include: transformations/**",
            location=Location(spec_file.name),
        ) from None
    root = spec_file.parent
    return Project(
        name=str(loaded.name),
        root=root,
        spec_file=spec_file,
        storage=_storage(str(loaded.storage), root, spec_file),
        libraries=tuple(library.include for library in loaded.libraries),
        settings=load_settings(loaded.configuration, flags),
    )


def _read(spec_file: Path) -> dict[str, Any]:
    try:
        data = yaml.safe_load(spec_file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else None
        raise ProjectError(
            f"not YAML: {getattr(error, 'problem', error)}", location=Location(spec_file.name, line)
        ) from None
    if not isinstance(data, dict):
        raise ProjectError(
            "is not a project file",
            "It needs at least name:, storage: and libraries:.",
            location=Location(spec_file.name),
        )
    configuration = data.get("configuration")
    if configuration is None:
        data.pop("configuration", None)
    elif isinstance(configuration, dict):
        data["configuration"] = {key: _as_text(value) for key, value in configuration.items()}
    if data.get("libraries") is None:
        data.pop("libraries", None)
    return data


def _as_text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _storage(storage: str, root: Path, spec_file: Path) -> Path:
    url = urlparse(storage)
    if url.scheme not in ("", "file"):
        raise ProjectError(
            f"storage: {storage} is not on this machine",
            "State lives in local files: give a path or a file: URI.",
            location=Location(spec_file.name),
        )
    return (root / (unquote(url.path) if url.scheme else storage)).resolve()
