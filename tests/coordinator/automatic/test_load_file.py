"""The file of the recorded load: bounded, and read around what is damaged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.automatic import load_file
from coordinator.automatic.load import LoadSample, StepClass
from coordinator.automatic.load_file import LoadFile, of_line, read_load, to_line
from tests.examples import examples

SAMPLE = LoadSample(10.0, 2.5, 700, 650, 30, 2, {7: StepClass(6, 700, 41.25)})


def numbered(number: int) -> LoadSample:
    return replace(SAMPLE, rows=number)


def rows_of(path: Path, last: int = 100) -> list[int]:
    return [sample.rows for _, sample in read_load(path, last).samples]


def write(path: Path, *numbers: int, begins: float = 1000.0) -> LoadFile:
    clock = [begins]
    file = LoadFile(path, lambda: clock[0])
    for number in numbers:
        file.append(numbered(number))
        clock[0] += 10.0
    return file


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "state" / "load.jsonl"
    assert read_load(path).samples == ()
    write(path, 1, 2, 3)
    found = read_load(path)
    assert found.samples == ((1000.0, numbered(1)), (1010.0, numbered(2)), (1020.0, numbered(3)))
    assert found.damaged == 0 and found.gaps == (0.0, 0.0, 0.0)
    assert rows_of(path, last=2) == [2, 3]


@settings(max_examples=examples(100))
@given(
    st.builds(
        LoadSample,
        seconds=st.floats(0.1, 1e4),
        busy_s=st.floats(0, 1e4),
        rows=st.integers(0, 10**12),
        arrived=st.integers(0, 10**12),
        lag=st.integers(0, 10**12),
        workers=st.integers(1, 1024),
        classes=st.dictionaries(
            st.integers(0, 40),
            st.builds(StepClass, st.integers(1, 10**6), st.integers(0, 10**12), st.floats(0, 1e7)),
            max_size=3,
        ),
        is_changing=st.booleans(),
        is_disturbed=st.booleans(),
    ),
    st.data(),
)
def test_any_sample_is_a_line_and_a_part_of_the_line_is_none(sample: LoadSample, data: st.DataObject) -> None:
    line = to_line(7.0, sample)
    at, found = of_line(line)
    assert at == 7.0 and "\n" not in line
    assert replace(found, seconds=0, busy_s=0, classes={}) == replace(sample, seconds=0, busy_s=0, classes={})
    assert found.seconds == pytest.approx(sample.seconds, abs=1e-3)
    assert {size: steps.rows for size, steps in found.classes.items()} == {
        size: steps.rows for size, steps in sample.classes.items()
    }
    with pytest.raises(ValueError):
        of_line(line[: data.draw(st.integers(0, len(line) - 1))])


def test_a_process_that_was_killed_within_a_line_costs_that_line(tmp_path: Path) -> None:
    path = tmp_path / "load.jsonl"
    write(path, 1, 2)
    path.write_bytes(path.read_bytes()[:-9])
    write(path, 3, begins=1020.0)
    assert rows_of(path) == [1, 3] and read_load(path).damaged == 1


def test_rubbish_is_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "load.jsonl"
    lines = [
        to_line(5.0, numbered(4)),
        "",
        "{}",
        "[1]",
        "3",
        "null",
        '{"at":',
        to_line(6.0, replace(SAMPLE, workers=0)),
    ]
    path.write_bytes("\n".join(lines).encode() + b"\n\xff\xfe\n" + to_line(9.0, numbered(5)).encode())
    assert rows_of(path) == [4, 5] and read_load(path).damaged == 7


def test_the_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_file, "LINES_MAX", 20)
    monkeypatch.setattr(load_file, "LINES_SPARE", 5)
    path = tmp_path / "load.jsonl"
    for begin in range(0, 90, 9):  # each is another run
        write(path, *range(begin, begin + 9))
        assert path.read_bytes().count(b"\n") <= 27
    assert rows_of(path)[-15:] == list(range(75, 90))
    assert [each.name for each in tmp_path.iterdir()] == ["load.jsonl"]


def test_a_file_that_cannot_be_written_ends_nothing_and_is_written_later(tmp_path: Path) -> None:
    path = tmp_path / "load.jsonl"
    path.mkdir()
    file = write(path, 1, 2)
    path.rmdir()
    file.append(numbered(3))
    assert rows_of(path) == [3]


def test_times_in_which_nobody_has_sampled_are_known(tmp_path: Path) -> None:
    path = tmp_path / "load.jsonl"
    write(path, 1, 2, begins=1000.0)
    write(path, 3, 4, begins=5000.0)
    write(path, 5, begins=200.0)  # the clock was set back
    assert read_load(path).gaps == (0.0, 0.0, 3980.0, 0.0, -4820.0)
