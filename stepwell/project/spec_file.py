"""The file `spark-pipeline.yml`: where it is found, and what may stand in it.

Guarantees: a file that is accepted here is accepted by `spark-pipelines`, and the reverse. There is one exception: here,
numbers and booleans under `configuration:` need no quotes. Spark's own reader is not used, because importing it takes
longer than all the rest of a short command, and because it does not name the line.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from base.secrets import mask_value
from stepwell.errors import Location, ProjectError, did_you_mean

SPEC_FILE_NAMES = ("spark-pipeline.yml", "spark-pipeline.yaml")
_ALL_BELOW = "/**"
_FIELDS_NEEDED = "It needs at least name:, storage: and libraries:."
_LIBRARIES_EXAMPLE = "Write it so:\n    libraries:\n      - glob:\n          include: transformations/**"


def _libraries_glob(pattern: str) -> str:
    """Spark allows a path without wildcards, or a folder and all that is below it. Raises what pydantic reports."""
    folder = pattern.removesuffix(_ALL_BELOW)
    if glob.has_magic(folder):
        raise PydanticCustomError("glob", "is neither a file's path nor a folder followed by /**")
    return pattern if folder == pattern else f"{pattern}/*"


def _as_text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


class _Glob(BaseModel):
    include: Annotated[str, AfterValidator(_libraries_glob)]


class _Library(BaseModel):
    glob: _Glob


class SpecFile(BaseModel):
    """The content of a project file. `catalog` and `database` (or `schema`) say where tables are looked up that the project does not define."""

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)

    name: str
    storage: str
    catalog: str | None = None
    database: str | None = None
    schema_: str | None = Field(None, alias="schema")
    configuration: dict[str, Annotated[str, BeforeValidator(_as_text)]] = {}
    libraries: list[_Library] = []

    @property
    def globs(self) -> tuple[str, ...]:
        return tuple(library.glob.include for library in self.libraries)


_FIELDS = tuple(field.alias or name for name, field in SpecFile.model_fields.items())


def find_spec(start: Path, spec: Path | None = None) -> Path:
    """The project file: `spec` if it is given, otherwise the one in `start` or in the nearest folder above it. Raises ProjectError."""
    if spec is not None:
        if not spec.is_file():
            raise ProjectError(f"{spec} is not a file", "Give --spec the path of a spark-pipeline.yml.")
        return spec.resolve()
    found = _nearest(start)
    if len(found) > 1:
        raise ProjectError(
            f"{found[0].parent} has two project files: {' and '.join(SPEC_FILE_NAMES)}",
            "Delete one, or give --spec FILE.",
        )
    if found:
        return found[0]
    raise ProjectError(
        f"no project here: neither {start.resolve()} nor a folder above it has a {SPEC_FILE_NAMES[0]}",
        "Run this in a project's folder, or give --spec FILE. `stepwell init NAME` makes a new project.",
    )


def is_project(start: Path) -> bool:
    """Whether the folder, or one above it, has a project file."""
    return bool(_nearest(start))


def _nearest(start: Path) -> list[Path]:
    """The project files of the nearest folder that has any, from `start` upwards; none if there is no such folder."""
    for folder in (start.resolve(), *start.resolve().parents):
        if found := [folder / name for name in SPEC_FILE_NAMES if (folder / name).is_file()]:
            return found
    return []


def read_spec(spec_file: Path) -> SpecFile:
    """Raises ProjectError, which names the line."""
    text = _text_of(spec_file)
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise ProjectError(
            f"not YAML: {getattr(error, 'problem', error)}",
            location=Location(spec_file.name, mark.line + 1 if mark else None),
        ) from None
    if not isinstance(data, dict):
        raise ProjectError(
            "is not a project file",
            _FIELDS_NEEDED,
            location=Location(spec_file.name),
        )
    present = {
        key: value for key, value in data.items() if value is not None or key not in ("configuration", "libraries")
    }
    try:
        return SpecFile.model_validate(present)
    except ValidationError as error:
        # Only a mistake needs the lines, so the text is parsed a second time here and not at every start.
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        raise _explain(error.errors()[0], spec_file.name, tree) from None


def _text_of(spec_file: Path) -> str:
    try:
        return spec_file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProjectError(f"{spec_file} cannot be read: {error}", "The file has to be UTF-8 text.") from None


def _explain(problem: ErrorDetails, file: str, tree: yaml.Node | None) -> ProjectError:
    path = problem["loc"]
    field = ".".join(str(part) for part in path if part != "[key]")
    location = Location(file, _line_of(tree, path))
    if problem["type"] == "extra_forbidden":
        return ProjectError(f"{field}: is not a field", did_you_mean(field, _FIELDS, "fields"), location=location)
    if path[0] == "libraries" and problem["type"] != "glob":
        return ProjectError("libraries: is not a list of globs", _LIBRARIES_EXAMPLE, location=location)
    if problem["type"] == "missing":
        return ProjectError(f"{field}: is missing", _FIELDS_NEEDED, location=location)
    what = problem["msg"] if problem["type"] == "glob" else f"{problem['msg'][0].lower()}{problem['msg'][1:]}"
    return ProjectError(f"{field}: {mask_value(field, repr(problem['input']))}: {what}", location=location)


def _line_of(node: yaml.Node | None, path: Sequence[int | str]) -> int | None:
    """The line of the last part of `path` that exists in the file."""
    line = None
    for part in path:
        below = _child(node, part)
        if below is None:
            break
        line, node = below
    return line


def _child(node: yaml.Node | None, part: int | str) -> tuple[int, yaml.Node] | None:
    """The line on which `part` of `node` begins, and its value."""
    if isinstance(node, yaml.MappingNode):
        return next(((key.start_mark.line + 1, value) for key, value in node.value if key.value == part), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part].start_mark.line + 1, node.value[part]
    return None
