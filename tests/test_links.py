"""Links of the documents lead somewhere: to files, and to headings in them. `make docs` checks the same with the site's own rules."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

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


def test_a_dead_link_is_seen() -> None:
    text = "[a](gone.md) [b](README.md#gone) [c](README.md#settings) [d](docs/errors.md) `[e](gone.md)` [f](https://example.com/x)"
    assert dead_links(ROOT / "README.md", text) == ["gone.md", "README.md#gone"]


def test_the_navigation_of_the_site_has_every_page() -> None:
    told = (ROOT / "mkdocs.yml").read_text()
    pages = {f"{path.name}" for path in (ROOT / "docs").glob("*.md")}
    assert pages == set(re.findall(r"^ +- (?:[^:#]+: )(\w[\w-]*\.md)$", told, re.MULTILINE))
