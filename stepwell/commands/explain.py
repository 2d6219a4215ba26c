"""`stepwell explain NAME`: what an error means, without a browser."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markdown import Markdown

from stepwell.commands.common import JsonOption, report_faults, show
from stepwell.error_pages.reference import text_of
from stepwell.error_pages.table import BY_SLUG, SECTIONS, link
from stepwell.errors import StepwellError, did_you_mean


def explain(
    name: Annotated[
        str | None, typer.Argument(help="Of an error, as its last line has it; without it all are listed.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Explain an error: why it comes about, and what to do."""
    with report_faults(as_json):
        if name is None:
            listed = {page.slug: page.what for _, pages in SECTIONS for page in pages}
            show(listed, as_json=as_json, text="\n".join(f"{slug}: {what}" for slug, what in listed.items()))
            return
        page = BY_SLUG.get(name.rpartition("#")[2])
        if page is None:
            raise StepwellError(f"there is no error {name!r}", did_you_mean(name, BY_SLUG, "errors"))
        found = {"name": page.slug, "what": page.what, "why": page.why, "what_to_do": page.do, "document": link(page)}
        show(found, as_json=as_json, text=Markdown(text_of(page)))
