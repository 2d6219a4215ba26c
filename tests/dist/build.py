"""The source archive, and from it two wheels: with the extensions in C for this platform, and without them for every platform.

python -m tests.dist.build FOLDER

Both wheels are made from the unpacked source archive, so what is missing in it is noticed. Everything is made in a temporary folder: the
repository gets no build folder, whose former files setuptools would pack again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.rooms import ROOMS

ROOT = Path(__file__).resolve().parents[2]
PACKED = (*ROOMS, "pyproject.toml", "setup.py", "README.md", "LICENSE")
BACKEND = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"
"""setuptools, as `pip` calls it: in a process of its own, because it changes the process that it runs in."""


def main(target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with _scratch() as scratch:
        _copy_sources(scratch / "sources")
        _backend(scratch / "sources", "build_sdist", target)
        with tarfile.open(_only(target.glob("*.tar.gz"))) as archive:
            archive.extractall(scratch / "unpacked", filter="data")
        for name, environment in (("for_platform", {}), ("pure", {"STEPWELL_PURE": "1"})):
            shutil.copytree(_only((scratch / "unpacked").iterdir()), scratch / name)
            _backend(scratch / name, "build_wheel", target, environment)
    for made in sorted(target.iterdir()):
        print(f"{made.stat().st_size / 1e6:5.1f} MB  {made}")


def build_wheel(target: Path) -> Path:
    """Only the wheel for this platform, in the folder `target`, which is made."""
    target.mkdir(parents=True)
    with _scratch() as scratch:
        _copy_sources(scratch / "sources")
        _backend(scratch / "sources", "build_wheel", target)
    return _only(target.glob("*.whl"))


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="stepwell-dist-") as folder:
        yield Path(folder)


def _copy_sources(to: Path) -> None:
    to.mkdir()
    for name in PACKED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        else:
            shutil.copy(ROOT / name, to / name)


def _backend(folder: Path, hook: str, target: Path, environment: dict[str, str] | None = None) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", BACKEND, hook, str(target.resolve())],
        cwd=folder, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if ran.returncode != 0:
        sys.exit(f"{hook} has failed:\n{ran.stdout[-4000:]}\n{ran.stderr[-4000:]}")


def _only(found: Iterator[Path]) -> Path:
    (one,) = found
    return one


if __name__ == "__main__":
    main(Path(sys.argv[1]))
