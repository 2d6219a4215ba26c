"""A file that a library writes through a pipe."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from storage import paced_writes as module
from storage.paced_writes import Unwanted, write_paced


@pytest.mark.parametrize("chunk_bytes", [7, 1000, 1 << 20])
def test_the_file_has_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int) -> None:
    monkeypatch.setattr(module, "CHUNK_BYTES", chunk_bytes)
    content = os.urandom(5000)
    with write_paced(tmp_path / "file", lambda: True) as descriptor:
        os.write(descriptor, content[:3000])
        os.write(descriptor, content[3000:])
    assert (tmp_path / "file").read_bytes() == content


def test_it_waits_as_long_as_the_rate_demands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = [0.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(module, "time", type("clock", (), {"monotonic": lambda: now[0], "sleep": sleep}))
    monkeypatch.setattr(module, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(module, "BYTES_PER_S_MAX", 500)
    with write_paced(tmp_path / "file", lambda: True) as descriptor:
        os.write(descriptor, bytes(3000))
    assert slept == [2.0, 2.0, 2.0]


def test_a_slow_disk_gets_rests_that_are_longer_than_its_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, slept = [0.0], list[float]()

    def sync(descriptor: int) -> None:
        now[0] += 3.0

    monkeypatch.setattr(module, "time", type("clock", (), {"monotonic": lambda: now[0], "sleep": slept.append}))
    monkeypatch.setattr(module.os, "fdatasync", sync)
    monkeypatch.setattr(module, "CHUNK_BYTES", 1000)
    with write_paced(tmp_path / "file", lambda: True) as descriptor:
        os.write(descriptor, bytes(2000))
    assert slept == [6.0, 6.0]


def test_a_fault_of_the_file_is_raised_and_the_writer_does_not_wait_for_ever(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError), write_paced(tmp_path / "file", lambda: True) as descriptor:
        while True:
            os.write(descriptor, bytes(1 << 16))


def test_a_full_disk_is_raised_in_the_place_of_the_broken_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(module.os, "fdatasync", full)
    monkeypatch.setattr(module, "CHUNK_BYTES", 1000)
    with pytest.raises(OSError, match="no space"), write_paced(tmp_path / "file", lambda: True) as descriptor:
        while True:
            os.write(descriptor, bytes(1 << 16))


def test_a_file_that_nobody_wants_any_more_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_BYTES", 1000)
    answers = iter([True, True])
    with pytest.raises(Unwanted), write_paced(tmp_path / "file", lambda: next(answers, False)) as descriptor:
        while True:
            os.write(descriptor, bytes(1 << 16))
    assert (tmp_path / "file").stat().st_size == 2000
