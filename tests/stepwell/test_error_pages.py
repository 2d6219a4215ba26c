"""Every class of errors has a page, the pages are true of the classes, and an error names its page."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from base.fault import ExitCode
from stepwell.error_pages.reference import reference
from stepwell.error_pages.table import BY_CLASS, BY_SLUG, NEVER_RAISED, SECTIONS, pages_of
from stepwell.errors import ProjectError, ProjectErrors, UnsupportedError
from tests.rooms import ROOMS
from tests.stepwell.command_line import CommandLine

ROOT = Path(__file__).parents[2]

PAGES = [page for _, pages in SECTIONS for page in pages]


CLASS = re.compile(r"^ *class (\w+)\(([^)]*)\):", re.MULTILINE)


@cache
def texts() -> tuple[str, ...]:
    """Of all of production code. Most of it needs no parser."""
    return tuple(path.read_text() for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")))


def _name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value):
            return _name(value)
    return ""


@cache
def fault_classes() -> dict[str, ast.ClassDef]:
    """By name. Two of one name would have one page."""
    bases = [
        (name, set(re.findall(r"\w+", re.sub(r"\[.*?\]", "", of))))
        for text in texts()
        for name, of in CLASS.findall(text)
    ]
    names = {"Fault"}
    while new := {name for name, of in bases if of & names} - names:
        names |= new
    trees = [ast.parse(text) for text in texts() if names & {name for name, _ in CLASS.findall(text)}]
    found: dict[str, ast.ClassDef] = {}
    for node in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        if node.name in names and (node.name == "Fault" or set(map(_name, node.bases)) & names):
            assert node.name not in found, f"two classes of faults have the name {node.name}"
            found[node.name] = node
    assert found.keys() == names
    return found


def exit_code_of_class(name: str) -> ExitCode:
    """As the class says it, or the nearest of its bases."""
    node = fault_classes()[name]
    for part in node.body:
        if isinstance(part, ast.Assign) and _name(part.targets[0]) == "exit_code":
            return ExitCode[_name(part.value)]
    return exit_code_of_class(next(base for base in map(_name, node.bases) if base in fault_classes()))


def test_every_class_of_faults_has_one_page() -> None:
    assert fault_classes().keys() == BY_CLASS.keys() | NEVER_RAISED
    assert not BY_CLASS.keys() & NEVER_RAISED
    assert sum(len(page.classes) for page in PAGES) == len(BY_CLASS) and len(BY_SLUG) == len(PAGES)


def test_what_has_no_page_is_never_raised() -> None:
    called = re.compile(rf"(?<!class )\b({'|'.join(NEVER_RAISED)})\(")
    assert not [line for text in texts() for line in text.splitlines() if called.search(line)]


def test_a_page_has_the_exit_code_of_its_errors() -> None:
    for page in PAGES:
        codes = {exit_code_of_class(name) for name in page.classes}
        assert page.exit_code is None or codes == {page.exit_code}, page.slug
    told = (ROOT / "docs" / "errors.md").read_text()
    assert all(f"| {code.value} | " in told for code in ExitCode)


def test_the_document_is_made_from_the_pages() -> None:
    assert (ROOT / "docs" / "errors.md").read_text() == reference(), (
        "run python -m stepwell.error_pages.reference > docs/errors.md"
    )


def test_several_errors_have_the_page_of_each_kind() -> None:
    errors = ProjectErrors([ProjectError("a"), UnsupportedError("b"), ProjectError("c")])
    assert [page.slug for page in pages_of(errors)] == ["project", "not-supported"]


def test_the_last_line_of_an_error_names_its_page(tmp_path: Path) -> None:
    line = CommandLine(tmp_path, "127.0.0.1:1", tmp_path / "cache")
    ended = line.here("status")
    assert (
        ended.code == 3 and ended.err.splitlines()[-1] == "more: docs/errors.md#project, or `stepwell explain project`"
    )
    assert line.here("status", "--json").json["more"] == ["docs/errors.md#project"]


def test_an_error_is_explained_by_what_its_last_line_names(tmp_path: Path) -> None:
    line = CommandLine(tmp_path, "127.0.0.1:1", tmp_path / "cache")
    told = line.here("explain", "docs/errors.md#held-by-another")
    assert told.code == 0 and "Another run of this pipeline is alive." in told.out and "Exit code: 7." in told.out
    assert line.asked("explain", "disk-full")["name"] == "disk-full"
    assert list(line.asked("explain")) == [page.slug for page in PAGES]
    unknown = line.here("explain", "held-by-anyone")
    assert unknown.code == 3 and "Did you mean held-by-another" in unknown.err
