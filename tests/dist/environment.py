"""A fresh environment of Python outside the repository, in which a wheel is installed.

The libraries are those of this environment, because to install them takes minutes. Packages with the names of the rooms stand in the new one,
and raise when they are imported: so nothing of a wheel depends on these names. The locale is POSIX.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

from stepwell.spark.class_archive import FOLDER as CLASSES
from tests.rooms import ROOMS

SECONDS_MAX = 300
"""For a command. A session starts in 5 to 20 s, and on a full machine in a minute."""

OF_OTHERS = 'raise ImportError("this package belongs to somebody else")\n'


class Environment:
    """A fresh environment of Python, with what `wheel` has in place of the repository."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self._python = folder / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        self._packages = folder / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
        (self._packages / "libraries.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
        for room in ROOMS[:-1]:
            (self._packages / room).mkdir()
            (self._packages / room / "__init__.py").write_text(OF_OTHERS)
        if CLASSES.exists():
            (folder / "share").mkdir()
            (folder / "share" / CLASSES.name).symlink_to(CLASSES)
        self.install(wheel)
        outside = {name: value for name, value in os.environ.items() if not name.startswith(("STEPWELL_", "PYTHON"))}
        self.variables = {**outside, "PATH": f"{folder / 'bin'}:{outside['PATH']}", "LC_ALL": "C"}

    def install(self, wheel: Path) -> None:
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", str(self._python)]
        options = ["install", "--no-deps", "--no-index", "--force-reinstall", "--no-compile"]
        subprocess.run([*pip, *options, str(wheel)], check=True)

    def run(self, folder: Path, *command: str) -> str:
        """What the command says. It must succeed, and show no traceback."""
        started = time.monotonic()
        ran = subprocess.run(
            command, cwd=folder, env=self.variables, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
        )
        assert ran.returncode == 0 and "Traceback" not in ran.stderr, (
            f"{command}: {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        )
        print(f"{time.monotonic() - started:6.1f} s  {' '.join(command)}", flush=True)
        return ran.stdout
