"""What the peers have in common: a virtual environment under build/, jars from Maven Central, and a job in a separate process.

The job is a script that runs in that environment and does not know Stepwell. It gets one JSON object as its argument and writes one as the
last line of its output.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from bench import measure
from bench.measure import Watch
from bench.ours import RUN_SECONDS_MAX, RunFailed
from bench.workloads import BUILD
from io_kafka.broker import jars as broker_jars

INSTALL_SECONDS_MAX = 900
PYTHONS = ("python3.11", "python3.12", "python3.10")
"""Versions of Python for which both peers are available. The first one that is installed is used."""


def environment(name: str, requirements: Sequence[str]) -> Path:
    """The Python of a virtual environment that has the requirements. It is made once. Raises RunFailed if they are not available."""
    folder = BUILD / name
    python, done = folder / "bin" / "python", folder / ".installed"
    if done.exists() and done.read_text() == "\n".join(requirements):
        return python
    base = next(filter(None, map(shutil.which, PYTHONS)), sys.executable)
    _run([base, "-m", "venv", str(folder)], f"making the environment of {name}")
    _run([str(python), "-m", "pip", "install", "--quiet", *requirements], f"installing {', '.join(requirements)}")
    done.write_text("\n".join(requirements))
    return python


def jars(name: str, modules: Sequence[tuple[str, str, str]], exclude: Sequence[str] = ()) -> list[Path]:
    """The jars of Maven modules (organisation, name, revision) and of their dependencies, fetched by the Ivy that pyspark brings. `exclude`:
    organisations whose jars the peer has already."""
    folder = BUILD / "-".join([name, *(revision for _, _, revision in modules), "jars"])
    if not folder.is_dir():
        scratch = folder.with_name(folder.name + ".part")
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        wanted = "".join(
            f'<dependency org="{o}" name="{m}" rev="{r}" conf="runtime->runtime(*),master(*)"/>' for o, m, r in modules
        )
        without = "".join(f'<exclude org="{org}" conf="runtime"/>' for org in exclude)
        command = broker_jars.ivy_command(scratch, _module(name, wanted, without))
        _run(command, f"fetching the jars of {name}")
        (scratch / "jars").rename(folder)
        shutil.rmtree(scratch)
    return sorted(folder.glob("*.jar"))


def _module(name: str, wanted: str, without: str) -> str:
    return (
        f'<ivy-module version="2.0"><info organisation="bench" module="{name}"/><configurations><conf name="runtime"/>'
        f"</configurations><dependencies>{wanted}{without}</dependencies></ivy-module>"
    )


def _run(command: Sequence[str], doing: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired:
        raise RunFailed(f"{doing}: not done after {INSTALL_SECONDS_MAX} s") from None
    if done.returncode != 0:
        raise RunFailed(f"{doing}: {' | '.join((done.stderr or done.stdout).strip().splitlines()[-4:])[-600:]}")


@contextlib.contextmanager
def started(python: Path, script: Path, job: dict[str, Any], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs the job as a child process. The child and its children are ended when the body of `with` ends."""
    folder.mkdir(parents=True, exist_ok=True)
    hidden = ("PYTHONPATH", "SPARK_HOME", "PYSPARK_PYTHON", "VIRTUAL_ENV")
    clean = {key: value for key, value in os.environ.items() if key not in hidden}
    clean["PATH"] = f"{python.parent}:{clean['PATH']}"
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        command = [str(python), str(script), json.dumps(job)]
        child = subprocess.Popen(command, stdout=out, stderr=err, cwd=folder, env=clean)
    try:
        yield child
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            measure.end_tree(psutil.Process(child.pid))
        child.wait()


def run_job(
    python: Path,
    script: Path,
    job: dict[str, Any],
    folder: Path,
    broker: int,
    *,
    looking: Callable[[], None] = lambda: None,
) -> tuple[dict[str, Any], Watch]:
    """Runs the job to its end and calls `looking` now and then. Returns the job's last line of output. Raises RunFailed."""
    with started(python, script, job, folder) as child, Watch(child.pid, broker) as watch:
        deadline = time.monotonic() + RUN_SECONDS_MAX
        while child.poll() is None:
            if time.monotonic() > deadline:
                raise RunFailed(f"{script.name} did not end within {RUN_SECONDS_MAX} s")
            looking()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(0.25)
    said = (folder / "out").read_text(errors="replace").strip().splitlines()
    if child.returncode != 0 or not said:
        err = (folder / "err").read_text(errors="replace").strip().splitlines()
        raise RunFailed(f"{script.name} ended with {child.returncode}: {' | '.join(err[-5:])[-800:]}")
    return json.loads(said[-1]), watch
