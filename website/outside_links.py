"""Hooks of the site: links that leave docs/ lead to the repository, and nothing is loaded from another host.

A page of docs/ is read in the repository and on the site. There a link to `../ARCHITECTURE.md` is a file beside docs/; here it becomes the
address of that file. A file that is not there is an error, as for links within docs/.
"""

from __future__ import annotations

import posixpath
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

LINK = re.compile(r"(\]\()((?:\.\./)[^)#\s]*)((?:#[^)\s]*)?\))")

LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}
"""What a browser loads by itself. A link that a reader follows is no such thing."""

NOT_LOADED = {"canonical", "alternate", "edit", "next", "prev"}
"""Links in a page's head that are only told."""


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    root = Path(config["config_file_path"]).parent
    folder = posixpath.dirname(f"docs/{page.file.src_uri}")

    def outside(found: re.Match[str]) -> str:
        place = posixpath.normpath(posixpath.join(folder, found[2]))
        if place.startswith("docs/") or place == "docs":
            return found[0]
        if not (root / place).exists():
            raise PluginError(f"{page.file.src_uri}: the link {found[2]} leads to {place}, which is not there")
        kind = "tree" if (root / place).is_dir() else "blob"
        return f"{found[1]}{config['extra']['repository']}/{kind}/main/{place}{found[3]}"

    return LINK.sub(outside, markdown)


class Loads(HTMLParser):
    """The addresses on other hosts that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if set((given.get("rel") or "").split()) & NOT_LOADED:
            return
        for name, value in attrs:
            if (tag, name) in LOADED and re.match(r"(https?:)?//", value or ""):
                self.found.append(str(value))


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    loads = Loads()
    loads.feed(output)
    if loads.found:
        raise PluginError(f"{page.file.src_uri} loads {loads.found[0]}: the site has to work offline")
    return output
