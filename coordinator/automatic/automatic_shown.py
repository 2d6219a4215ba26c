"""What users see of automatic layouts."""

from __future__ import annotations

from typing import Any

from coordinator.automatic.machine import AutoMachine

SHOWN_MAX = 8
"""For how many numbers of workers it is shown what they are expected to manage: around the present one."""


def automatic_status(machine: AutoMachine, changes: int) -> dict[str, Any] | None:
    """Returns what `Status.automatic` has; None while users alone change the layout. `decision`: the kind of the last choice, and `reason` its
    text. `workers`: the number to which it leads. `rows_per_s`: what the present workers manage, `expected` what others would. `changes`: how
    many were asked for by this run. `last`: what the last change has brought, if that is known."""
    limits, known, choice = machine.limits, machine.known, machine.choice
    if limits is None:
        return None
    verdict = known.last
    return {
        "min": limits.least,
        "max": limits.most,
        "phase": type(machine.phase).__name__.lower(),
        "decision": choice.kind,
        "workers": known.workers if choice.workers is None else choice.workers,
        "reason": choice.reason,
        "arrived_per_s": round(known.arrived_per_s, 1),
        "rows_per_s": None if known.rows_per_s is None else round(known.rows_per_s, 1),
        "lag": known.lag,
        "busy_share": round(known.busy_share, 3),
        "expected": _capacity_by_workers(machine),
        "refused": {str(number): each.why for number, each in machine.refusals.items() if known.now < each.until},
        "last": None
        if verdict is None
        else {"from": verdict.origin, "to": verdict.workers, "times_as_fast": round(verdict.gain, 2)},
        "changes": changes,
    }


def _capacity_by_workers(machine: AutoMachine) -> dict[str, float]:
    limits, known = machine.limits, machine.known
    if limits is None or known.workers is None:
        return {}
    near = sorted(range(limits.least, limits.most + 1), key=lambda number: abs(number - (known.workers or 0)))
    rates = {number: known.rows_per_s_of(number) for number in sorted(near[:SHOWN_MAX])}
    return {str(number): round(rate, 1) for number, rate in rates.items() if rate is not None}
