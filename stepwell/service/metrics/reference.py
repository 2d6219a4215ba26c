"""docs/metrics.md, made from the table of metrics: `python -m stepwell.service.metrics.reference > docs/metrics.md`. A test holds that it is."""

from __future__ import annotations

import sys
from importlib import resources

from stepwell.service.metrics.metric import Metric
from stepwell.service.metrics.names import PARTITIONS_MAX
from stepwell.service.metrics.table import SECTIONS

TEXT = "reference.md"


def reference() -> str:
    """The whole page. The text around the tables is in reference.md beside this module."""
    text = resources.files(__package__).joinpath(TEXT).read_text()
    return text.replace("{PARTITIONS_MAX}", f"{PARTITIONS_MAX:,}").replace("{TABLES}", tables())


def tables() -> str:
    return "\n\n".join(f"### {title}\n\n{_table(metrics)}" for title, metrics in SECTIONS)


def _table(metrics: tuple[Metric, ...]) -> str:
    rows = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for each in metrics:
        labels = ", ".join(f"`{label}`" for label in each.labels) or "-"
        per = f" One series per {each.per}." if each.per else ""
        rows.append(f"| `{each.name}` | {each.kind} | {labels} | {each.help}{per} |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.stdout.write(reference())
