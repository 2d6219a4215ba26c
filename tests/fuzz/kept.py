"""Projects that are kept although the seeds that made them make others now, because a construct or an expression has been added.

Each is the `repr` of a Case in `kept_projects`, made smaller: of a defect that was found, or of a breakage that it notices. `make fuzz` writes a
failing project in that form beside its text.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from pprint import pformat

from tests.fuzz import terms
from tests.fuzz.cases import Case, Message, Run, Source, View

FOLDER = Path(__file__).with_name("kept_projects")
_NAMES = {
    **{kind.__name__: kind for kind in (Case, Message, Run, Source, View)},
    **{name: value for name, value in vars(terms).items() if isinstance(value, type)},
    "Decimal": Decimal,
    "nan": float("nan"),
    "inf": float("inf"),
}


def kept() -> dict[str, Case]:
    return {file.stem: read(file.read_text()) for file in sorted(FOLDER.glob("*.case"))}


def read(text: str) -> Case:
    case = eval(text, dict(_NAMES))
    assert isinstance(case, Case)
    return case


def written(case: Case) -> str:
    return pformat(case, width=140, sort_dicts=False) + "\n"
