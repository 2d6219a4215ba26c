"""Links of the documents lead somewhere: to files, and to headings in them. `make docs` checks the same with the site's own rules."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.rooms import ROOMS

ROOT = Path(__file__).parent.parent

DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

LINK = re.compile(r"\]\(([^)\s]+)\)")


@cache
def headings(path: Path) -> frozenset[str]:
    """The anchors of a document. A heading in a block is none."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return frozenset(re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in found)


def dead_links(path: Path, text: str) -> list[str]:
    """The links in the text of a document that lead nowhere. Those to other hosts are not followed."""
    dead = []
    prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)
    for link in LINK.findall(prose):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists() or (anchor and anchor not in headings(target)):
            dead.append(link)
    return dead


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    assert not dead_links(path, path.read_text())


PATH_OF_MODULE = re.compile(r"(?<![\w/.*{])\w[\w]*(?:/\w+)+\.py\b")


def test_modules_that_docstrings_name_are_there() -> None:
    """A path with a folder. It may begin at any folder of the project."""
    modules = [
        path.relative_to(ROOT)
        for path in ROOT.rglob("*.py")
        if path.relative_to(ROOT).parts[0] in (*ROOMS, "tests", "bench")
    ]
    known = {path.as_posix() for path in modules}
    ends = {"/".join(path.parts[start:]) for path in modules for start in range(len(path.parts) - 1)}
    gone = {
        f"{path}: {name}"
        for path in modules
        if PATH_OF_MODULE.search(text_of_file := (ROOT / path).read_text())  # to parse all files takes 6 s
        for text in docstrings(ast.parse(text_of_file))
        for name in PATH_OF_MODULE.findall(text)
        if name not in known and name not in ends
    }
    assert not gone


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Of the module, its classes and functions, and those below fields and constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def test_a_dead_link_is_seen() -> None:
    text = "[a](gone.md) [b](README.md#gone) [c](README.md#settings) [d](docs/errors.md) `[e](gone.md)` [f](https://example.com/x)"
    assert dead_links(ROOT / "README.md", text) == ["gone.md", "README.md#gone"]


def test_the_navigation_of_the_site_has_every_page() -> None:
    told = (ROOT / "mkdocs.yml").read_text()
    pages = {f"{path.name}" for path in (ROOT / "docs").glob("*.md")}
    assert pages == set(re.findall(r"^ +- (?:[^:#]+: )(\w[\w-]*\.md)$", told, re.MULTILINE))
