"""What the tables show of several rounds, in each of which everything ran once: medians. Ratios are taken within a round, because both sides
ran in the same hour there, and the median of the ratios is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from statistics import median
from typing import Any

from bench.result import Result
from bench.workloads import StepRows

Case = tuple[str, str, StepRows]
"""Engine, workload, rows per step."""


def by_case(results: Sequence[Result]) -> dict[Case, list[Result]]:
    """The results of each case, in the order in which the cases ran first."""
    cases: dict[Case, list[Result]] = {}
    for result in results:
        cases.setdefault((result.engine, result.workload, result.rows_per_step), []).append(result)
    return cases


def medians(results: Sequence[Result]) -> list[Result]:
    """One result per case."""
    return [_median(rounds) for rounds in by_case(results).values()]


def rounds_of(results: Sequence[Result]) -> int:
    """The number of rounds of the case that has most. In an interrupted benchmark other cases have one less."""
    return max((len(rounds) for rounds in by_case(results).values()), default=0)


def _median(rounds: Sequence[Result]) -> Result:
    """The median over the rounds that did not fail. The note names a failed round, and it is the whole result only if all rounds failed.
    `equal` is true if it is true in every round."""
    done = [result for result in rounds if result.failed is None]
    if len(rounds) == 1 or not done:
        return rounds[-1]
    values: dict[str, Any] = {f.name: _value([getattr(r, f.name) for r in done]) for f in fields(Result)}
    compared = [r.equal for r in done if r.equal is not None]
    notes = dict.fromkeys(r.note for r in done if r.note)
    failures = dict.fromkeys(f"failed in a round of {len(rounds)}: {r.failed}" for r in rounds if r.failed is not None)
    return Result(**{**values, "equal": all(compared) if compared else None, "note": "; ".join([*notes, *failures])})


def _value(found: Sequence[Any]) -> Any:
    """The median of numbers, also within a mapping; for other values, the value of the last round."""
    known = [value for value in found if value is not None]
    if known and all(isinstance(value, Mapping) for value in known):
        names = dict.fromkeys(name for value in known for name in value)
        return {name: _value([value.get(name) for value in known]) for name in names}
    if known and all(isinstance(value, int | float) and not isinstance(value, bool) for value in known):
        middle = median(known)
        return round(middle) if all(isinstance(value, int) for value in known) else round(middle, 2)
    return known[-1] if known else None


def ratios(results: Sequence[Result], engine: str, peer: str) -> tuple[float | None, dict[StepRows, float]]:
    """(ratio of the best rates, ratios of the rates by rows per step) of one workload; (None, {}) if one of the engines has no rate."""
    best: list[float] = []
    same: dict[StepRows, list[float]] = {}
    cases = by_case(results)
    for number in range(rounds_of(results)):
        mine, theirs = (
            {
                step: rate
                for (name, _, step), rounds in cases.items()
                if name == who and number < len(rounds) and (rate := rounds[number].rows_per_s)
            }
            for who in (engine, peer)
        )
        if mine and theirs:
            best.append(max(mine.values()) / max(theirs.values()))
        for step in mine.keys() & theirs.keys():
            same.setdefault(step, []).append(mine[step] / theirs[step])
    order = [step for name, _, step in cases if name == peer and step in same]
    return (median(best) if best else None), {step: median(same[step]) for step in order}
