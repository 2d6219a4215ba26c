"""`stepwell bundle`: one archive with what a bug report needs, and without a secret.

It asks whatever answers. A part that cannot be had, because the broker is down, no service runs or the project file is broken, is named with its
reason, and the others are there. Nothing is changed, and Spark is not started.
"""

from __future__ import annotations

import io
import json
import tarfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from base.secrets import hidden
from base.sizes import size_text
from stepwell.commands.bundle_parts import MACHINE_PARTS, PROJECT_PARTS, BundleFacts, Part
from stepwell.commands.common import JsonOption, SetOption, SpecOption, project_of, report_faults, show
from stepwell.errors import StepwellError
from stepwell.planning.kept_plan import BUNDLE_PREFIX
from stepwell.project.loading import Project

README = """\
What `stepwell bundle` has gathered for a bug report.

Values of settings that are secret are replaced by ***, and so are these values wherever another file quotes them.
Messages, rows and files of definitions are not in it. But names of topics, views, columns, hosts and folders are, and so are the constants of
queries (plan.txt) and the texts of errors, which may quote a value of a row. Look through it before you send it to people outside.

"""


def bundle(
    spec: SpecOption = None,
    conf: SetOption = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FILE", help="The archive. Default: stepwell-bundle-PIPELINE-TIME.tar.gz here."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Gather versions, settings, status, logs, step log, layout, sizes and plan for a bug report, without secrets."""
    with report_faults(as_json):
        now = datetime.now(UTC)
        parts: dict[str, Part] = dict(MACHINE_PARTS)
        project, missing = None, dict[str, str]()
        try:
            project = project_of(spec, conf, may_lack=True)
            parts |= PROJECT_PARTS
        except StepwellError as fault:
            missing["the project"] = str(fault)
        files = gather(project, parts, missing)
        name = "-".join((BUNDLE_PREFIX, *([] if project is None else [project.name]), f"{now:%Y%m%dT%H%M%SZ}"))
        place = Path.cwd() / f"{name}.tar.gz" if to is None else to
        size = _write(place, name, files, now)
        found = {"file": str(place), "bytes": size, "parts": sorted(files), "missing": missing}
        show(found, as_json=as_json, text=_text(found))


def gather(project: Project | None, parts: Mapping[str, Part], missing: dict[str, str]) -> dict[str, str]:
    """The content of each file, without secrets. What cannot be had is added to `missing`, with its reason."""
    files, facts = dict[str, str](), BundleFacts(project)
    for name, part in parts.items():
        try:
            content = part(facts)
        except Exception as fault:  # whatever is wrong may be what the report is about
            missing[name] = hidden(f"{type(fault).__name__}: {fault}")
            continue
        text = content if isinstance(content, str) else json.dumps(content, indent=1, default=str, ensure_ascii=False)
        files[name] = hidden(text)
    listed = "".join(f"missing: {name}: {reason}\n" for name, reason in missing.items())
    files["README.txt"] = README + (listed or "Nothing is missing.\n")
    return files


def _write(place: Path, folder: str, files: Mapping[str, str], now: datetime) -> int:
    """Writes the archive, which only this user can read. Returns its bytes."""
    try:
        place.touch(mode=0o600)
        with tarfile.open(place, "w:gz") as archive:
            for name, text in sorted(files.items()):
                content = text.encode(errors="backslashreplace")
                about = tarfile.TarInfo(f"{folder}/{name}")
                about.size, about.mode, about.mtime = len(content), 0o600, int(time.mktime(now.timetuple()))
                archive.addfile(about, io.BytesIO(content))
        return place.stat().st_size
    except OSError as fault:
        raise StepwellError(
            f"{place} cannot be written: {fault.strerror}", "Name another place with --to FILE."
        ) from None


def _text(found: Mapping[str, Any]) -> str:
    lines = [f"{found['file']} ({size_text(found['bytes'])}): {', '.join(found['parts'])}"]
    lines += [f"missing: {name}: {reason}" for name, reason in found["missing"].items()]
    lines.append("Secrets are replaced by ***. Look through it before you send it: README.txt says what is in it.")
    return "\n".join(lines).replace("[", r"\[")
