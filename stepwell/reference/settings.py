"""docs/settings.md, made from the settings: `python -m stepwell.reference.settings > docs/settings.md`. A test holds that it is."""

from __future__ import annotations

import re
import sys
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import annotated_types
from pydantic.fields import FieldInfo

from stepwell.project.stepwell_settings import STEPWELL_KEYS, StepwellSettings

TEXT = "settings.md"

_NAMES = {int: "number", float: "number", bool: "true or false", Path: "path", str: "text"}


def reference() -> str:
    """The whole page. The text above the table is in settings.md beside this module."""
    rows = ["| setting | default | values | meaning |", "|---|---|---|---|"]
    for key, name in STEPWELL_KEYS.items():
        field = StepwellSettings.model_fields[name]
        cells = (f"`{key}`", _default(field.default), _values(name, field), _link_documents(field.description or ""))
        rows.append(f"| {' | '.join(cells)} |")
    text = resources.files(__package__).joinpath(TEXT).read_text()
    return text.replace("{TABLE}", "\n".join(rows))


def _default(value: Any) -> str:
    if value is None:
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _values(name: str, field: FieldInfo) -> str:
    """What the setting may be, with its bounds."""
    declared = StepwellSettings.__annotations__[name]
    kind = field.annotation
    choices = [choice for part in (kind, *get_args(kind)) if get_origin(part) is Literal for choice in get_args(part)]
    if choices:
        return ", ".join(f"`{choice}`" for choice in choices)
    if declared == "DurationOrNever":
        return "duration from 1 s to 24 h, or `never`"
    bounds = _bounds(field)
    if declared == "Duration":
        return "duration" + _range(bounds, _seconds)
    if declared == "Bytes":
        return "size" + _range(bounds, _size)
    plain = next(part for part in (*get_args(kind), kind) if part in _NAMES)
    return _NAMES[plain] + _range(bounds, "{:,}".format)


def _bounds(field: FieldInfo) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in field.metadata:
        match each:
            case annotated_types.Ge(ge):
                found["from"] = ge
            case annotated_types.Gt(gt):
                found["above"] = gt
            case annotated_types.Le(le):
                found["to"] = le
    return found


def _range(bounds: dict[str, Any], shown: Any) -> str:
    words = (f"{word} {shown(bounds[word])}" for word in ("from", "above", "to") if word in bounds)
    return "".join(f" {each}" for each in words)


def _seconds(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if seconds >= size and seconds % size == 0 and (unit != "d" or seconds > size):
            return f"{seconds // size:g} {unit}"
    return f"{seconds * 1000:g} ms"


def _size(count: int) -> str:
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << power:
            return f"{count >> power} {unit}"
    return f"{count} bytes"


def _link_documents(text: str) -> str:
    """A document that is named in brackets becomes a link."""
    return re.sub(r"\((\w+\.md)\)", r"([\1](\1))", text)


if __name__ == "__main__":
    sys.stdout.write(reference())
