"""The list of breakages does not rot, and the runner takes nothing for caught that is not."""

from __future__ import annotations

import ast
import inspect
import subprocess
from functools import cache
from pathlib import Path

import pytest

from engine.operators.table import OPERATORS
from tests.sabotage.__main__ import LINT, judged
from tests.sabotage.breakage import Breakage, Edit, Stale
from tests.sabotage.breakages import BREAKAGES
from tests.sabotage.outcomes import Kind, Outcome

ROOT = Path(__file__).resolve().parents[2]


@cache
def broken() -> list[tuple[Breakage, dict[str, str]]]:
    """Each breakage with the files that it changes."""
    return [(breakage, breakage.broken(ROOT)) for breakage in BREAKAGES]


def test_every_breakage_fits_the_code_and_its_tests_are_there() -> None:
    for breakage, files in broken():
        for file, text in files.items():
            is_python = file.endswith(".py")
            assert not is_python or is_changed(text_of(file), text), f"{breakage.name}: nothing is broken in {file}"
        assert breakage.caught_by, f"{breakage.name}: no test is named"
        assert breakage.tells != "", f"{breakage.name}: an error of ours has to say what is broken"
        for test in breakage.caught_by:
            file, name = test.split("[")[0].split("::")
            assert name in top_level_names(ROOT / file), f"{breakage.name}: {test} is not there"


def test_a_breakage_is_a_mistake_that_could_have_been_shipped(tmp_path: Path) -> None:
    """It has no undefined name: such a breakage is caught by the linter and proves nothing of the tests."""
    for breakage, files in broken():
        for file, text in files.items():
            copy = tmp_path / breakage.name / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text)
    checked = subprocess.run([*LINT, str(tmp_path)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


@cache
def text_of(file: str) -> str:
    return (ROOT / file).read_text()


def is_changed(before: str, after: str) -> bool:
    """Whether more than comments and line breaks differ. Only the statements of the top level that differ are parsed, because whole modules
    take ten times as long."""
    old, new = before.splitlines(), after.splitlines()
    first = next(
        (at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), min(len(old), len(new))
    )
    same = 0
    while same < min(len(old), len(new)) - first and old[-1 - same] == new[-1 - same]:
        same += 1
    touched = [span for span in spans_of(before) if span[1] > first and span[0] <= len(old) - same]
    if not touched:
        return _dumped(old) != _dumped(new)
    begin, rest = min(start for start, _ in touched), len(old) - max(end for _, end in touched)
    return _dumped(old[begin : len(old) - rest]) != _dumped(new[begin : len(new) - rest])


def _dumped(lines: list[str]) -> str:
    return ast.dump(ast.parse("\n".join(lines)))


@cache
def spans_of(text: str) -> list[tuple[int, int]]:
    """The lines of each statement of the top level, with its decorators: from the first, counted from 0, to before the other."""
    return [
        (min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))]) - 1, node.end_lineno or 0)
        for node in ast.parse(text).body
    ]


def test_a_breakage_that_changes_a_comment_alone_breaks_nothing() -> None:
    before = "import os\n\n@cache\ndef f():  # why\n    return 1\n"
    for same in (
        "import os\n\n@cache\ndef f():\n    # because\n    return 1\n",
        before + "# end\n",
        "# begin\n" + before,
        before,
    ):
        assert not is_changed(before, same), same
    for other in (
        "import os\n\n\ndef f():\n    return 1\n",
        "import os\n",
        before + "x = 1\n",
        "import io\n" + before,
        before.replace("1", "2"),
    ):
        assert is_changed(before, other), other


@cache
def top_level_names(file: Path) -> set[str]:
    """Functions, and what is assigned: Hypothesis's machines are."""
    names: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def test_every_operator_is_broken_by_some_breakage() -> None:
    broken = {edit.file for breakage in BREAKAGES for edit in breakage.edits}
    steps = [operator.step for operator in OPERATORS if operator.step is not None]
    files = {str(Path(inspect.getfile(step)).resolve().relative_to(ROOT)) for step in steps}
    assert len(files) > 5 and files <= broken, f"no breakage changes {', '.join(sorted(files - broken))}"


def test_names_are_unique_and_every_invariant_is_broken() -> None:
    assert len({breakage.name for breakage in BREAKAGES}) == len(BREAKAGES)
    assert {breakage.breaks[0] for breakage in BREAKAGES} >= set("123456789")


def test_an_old_text_that_is_not_there_once_is_stale(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("a = 1\nb = 1\n")

    def apply(old: str, new: str) -> str:
        Breakage("b", "", "", (Edit("code.py", old, new),), ("t",)).apply(tmp_path)
        return (tmp_path / "code.py").read_text()

    for old in ("c = 1", "= 1"):
        with pytest.raises(Stale, match="not once"):
            apply(old, "x")
    with pytest.raises(SyntaxError):
        apply("a = 1", "a = ")
    assert apply("a = 1", "a = 2") == "a = 2\nb = 1\n"


@pytest.mark.parametrize(
    ("kind", "said", "tells", "caught"),
    [
        ("assertion", "AssertionError: assert 1 == 2", None, True),
        ("own error", "io_kafka.step_log.state.BrokenStepLog: gone", "BrokenStepLog", True),
        ("own error", "io_kafka.errors.BrokerUnreachable: gone", "BrokenStepLog", False),
        ("own error", "io_kafka.step_log.state.BrokenStepLog: gone", None, False),
        ("crash", "ImportError: BrokenStepLog", "BrokenStepLog", False),
        ("passed", "", None, False),
    ],
)
def test_only_the_right_failure_counts(kind: Kind, said: str, tells: str | None, caught: bool) -> None:
    breakage = Breakage("b", "", "", (), ("tests/t.py::test",), tells)
    assert judged(breakage, [Outcome("tests/t.py::test[1]", kind, said)], 1.0).caught == caught


def test_every_test_that_is_named_must_fail() -> None:
    breakage = Breakage("b", "", "", (), ("tests/t.py::one", "tests/t.py::two"))
    failed = [Outcome(f"tests/t.py::{name}", "assertion", "assert False") for name in ("one", "two", "one_more")]
    assert judged(breakage, failed, 1.0).caught
    assert not judged(breakage, failed[:1], 1.0).caught
    assert not judged(breakage, [failed[0], failed[2]], 1.0).caught
