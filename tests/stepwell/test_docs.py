"""docs/sql.md names every expression and no other: an error sends users there."""

from __future__ import annotations

import re
from pathlib import Path

from stepwell.lowering.expressions import TABLE

DOCS = Path(__file__).parents[2] / "docs" / "sql.md"


def test_every_expression_is_listed() -> None:
    text = DOCS.read_text().split("## Expressions", 1)[1]
    listed = {
        name for block in re.split(r"^### .*$", text, flags=re.MULTILINE)[1:] for name in re.findall(r"\w+", block)
    }
    assert listed == set(TABLE)
