"""Which forms lower, and what refuses the others. No row is read and no broker is needed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from bench.sql.suites import Suite
from engine.model.circuit import Circuit
from stepwell.errors import ProjectError
from stepwell.lowering import driver
from stepwell.planning import resolver
from stepwell.planning.plans import ResolvedProject
from stepwell.project.loading import load_project

SPEC = """\
name: suite
storage: state
libraries:
  - glob:
      include: transformations/**
"""

KNOWN = Path(__file__).with_name("lowers.txt")


@dataclass(frozen=True)
class Form:
    """One query of a suite. It lowers if `reasons` is empty, and `circuit` is then its circuit."""

    suite: str
    name: str
    reasons: tuple[str, ...]
    circuit: Circuit | None = None

    @property
    def lowers(self) -> bool:
        return not self.reasons


def forms(suite: Suite, spark: SparkSession, names: Sequence[str] = ()) -> Iterator[Form]:
    """The forms `names` of a suite (all by default), each lowered as the only view of its project."""
    chosen = {name: query for name, query in suite.queries.items() if not names or name in names}
    with resolved(replace(suite, queries=chosen), spark) as (project, errors):
        views = {view.name: view for view in project.views}
        refused: dict[str, list[ProjectError]] = {}
        for error in errors:
            refused.setdefault(error.view or "", []).append(error)
        for name in chosen:
            found = list(refused.get(name, []) + refused.get("", []))
            circuit = None
            if name in views:
                lowered = driver.lower_with_errors(replace(project, views=(views[name],)))
                found += lowered.errors
                circuit = lowered.circuit
            elif not found:
                found.append(ProjectError("the view was not resolved, and no error says why"))
            reasons = tuple(dict.fromkeys(str(error.message) for error in found))
            yield Form(suite.name, name, reasons, None if reasons else circuit)


@contextmanager
def resolved(suite: Suite, spark: SparkSession) -> Iterator[tuple[ResolvedProject, list[ProjectError]]]:
    """The suite as a project in a folder of its own, with the plans of what could be resolved and the errors of the rest."""
    with tempfile.TemporaryDirectory(prefix="stepwell-suite-") as folder:
        root = Path(folder)
        write_project(root, suite)
        yield resolver.resolve_with_errors(load_project(root / "spark-pipeline.yml"), spark)


def write_project(root: Path, suite: Suite) -> None:
    """Writes the suite's project into `root`."""
    (root / "spark-pipeline.yml").write_text(SPEC)
    (root / "transformations").mkdir()
    for name, text in suite.files().items():
        (root / "transformations" / name).write_text(text)


def known() -> set[tuple[str, str]]:
    """The forms that lowered once, as (suite, name). The list may only grow."""
    return {(suite, name) for suite, name in (line.split() for line in KNOWN.read_text().splitlines())}


def add_known(found: Sequence[Form]) -> None:
    """Adds those of `found` that lower to the list."""
    lines = known() | {(form.suite, form.name) for form in found if form.lowers}
    KNOWN.write_text("".join(f"{suite} {name}\n" for suite, name in sorted(lines)))


def table(found: Sequence[Form]) -> str:
    """Lines for people: how many forms of each suite lower, then every form."""
    lines = []
    for suite in dict.fromkeys(form.suite for form in found):
        mine = [form for form in found if form.suite == suite]
        lines.append(f"{suite}: {sum(form.lowers for form in mine)} of {len(mine)} forms lower")
    lines.append("")
    for form in found:
        first, *others = form.reasons or ("",)
        lines.append(f"{form.suite:8} {form.name:5} {'yes' if form.lowers else 'no':3} {first}".rstrip())
        lines += [f"{'':19}{other}" for other in others]
    return "\n".join(lines)
