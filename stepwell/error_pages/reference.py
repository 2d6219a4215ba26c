"""docs/errors.md, made from the table of pages: `python -m stepwell.error_pages.reference > docs/errors.md`. A test holds that it is."""

from __future__ import annotations

import sys
from importlib import resources

from stepwell.error_pages.page import Page
from stepwell.error_pages.table import SECTIONS

TEXT = "reference.md"


def reference() -> str:
    """The whole document. The text above the pages is in reference.md beside this module."""
    text = resources.files(__package__).joinpath(TEXT).read_text()
    return text.replace("{SECTIONS}", "\n\n".join(_section(title, pages) for title, pages in SECTIONS))


def _section(title: str, pages: tuple[Page, ...]) -> str:
    return f"## {title}\n\n" + "\n\n".join(f"### {page.slug}\n\n{text_of(page)}" for page in pages)


def text_of(page: Page) -> str:
    """What a page says, without its heading."""
    code = "that of the reason" if page.exit_code is None else f"{page.exit_code.value}"
    names = ", ".join(f"`{name}`" for name in page.classes if not name.startswith("_"))
    return f"{page.what}\n\n**Why.** {page.why}\n\n**What to do.** {page.do}\n\nExit code: {code}. In logs: {names}."


if __name__ == "__main__":
    sys.stdout.write(reference())
