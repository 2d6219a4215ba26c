"""The reader in C writes and reads nothing beyond its buffers, whatever the messages are: its tests run with AddressSanitizer and the checks of
undefined behaviour.

Messages come from anybody, and a byte beyond a buffer is silent otherwise: it is in a column of another message, or ends the worker.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CHECKS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"]
SECONDS_MAX = 400
"""Of the tests in the process with checks, which takes a few times as long as without."""


def libraries(compiler: str) -> list[str]:
    """Those that have to be loaded first; without an absolute path the compiler does not have the library."""
    named = [
        subprocess.run(
            [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libstdc++.so")
    ]
    return [name for name in named if Path(name).is_absolute()]


@pytest.mark.long
def test_the_reader_stays_within_its_buffers(tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    if compiler is None or len(found := libraries(compiler)) < 2:
        pytest.skip("gcc with AddressSanitizer is not installed")
    built = tmp_path / "_json.so"
    source, headers = ROOT / "io_kafka" / "formats" / "_json.c", sysconfig.get_path("include")
    command = [compiler, "-g", "-O1", *CHECKS, "-shared", "-fPIC", f"-I{headers}", str(source), "-o", str(built)]
    subprocess.run(command, check=True)
    environment = {
        **os.environ,
        "LD_PRELOAD": ":".join(found),
        "PYTHONMALLOC": "malloc",  # so that Python's own blocks are checked too
        "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter leaves much to the end of the process
        "PYTHONPATH": str(ROOT),
        "SANITIZED_JSON": str(built),
    }
    tests = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-s",  # the checks write to standard error, and end the process
        "-p",
        "tests.io_kafka.formats.sanitized",
        "-p",
        "no:cacheprovider",
    ]
    ended = subprocess.run(
        [*tests, "tests/io_kafka/formats/test_native_json.py", "-k", "not without_the_extension"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
