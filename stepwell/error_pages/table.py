"""All pages, and which of them explain an error."""

from __future__ import annotations

from collections.abc import Mapping

from base.fault import Fault
from stepwell.error_pages import of_data, of_kafka, of_projects, of_runs, of_state
from stepwell.error_pages.page import Page
from stepwell.errors import ProjectErrors

SECTIONS: tuple[tuple[str, tuple[Page, ...]], ...] = tuple(
    (each.TITLE, each.PAGES) for each in (of_projects, of_data, of_kafka, of_state, of_runs)
)

NEVER_RAISED = frozenset(
    {"Fault", "EngineError", "KafkaFault", "CannotConnect", "CoordinatorError", "PackError", "StepLogUnreadable"}
)
"""Bases of faults that nothing raises. All other classes of faults have a page, so that no error is without one."""

BY_CLASS: Mapping[str, Page] = {name: page for _, pages in SECTIONS for page in pages for name in page.classes}

BY_SLUG: Mapping[str, Page] = {page.slug: page for _, pages in SECTIONS for page in pages}

DOCUMENT = "docs/errors.md"


def pages_of(fault: Fault) -> tuple[Page, ...]:
    """The page of an error; of several errors the page of each kind, in the order in which the errors come."""
    faults = fault.errors if isinstance(fault, ProjectErrors) else (fault,)
    return tuple(dict.fromkeys(BY_CLASS[type(each).__name__] for each in faults))


def link(page: Page) -> str:
    return f"{DOCUMENT}#{page.slug}"
