"""What `stepwell layout` shows: the layout as the service or the step log has it, and what a change of it would move.

The step log knows the owners of the last checkpoint. Only the service knows the owners now, the hosts, and how far a change has got.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from base.slots import NO_SLOTS, SLOTS
from coordinator.rescale.forecast import Measured, estimate_times
from coordinator.shown_status import ENDED_PHASES
from engine.model.layout import Layout, Policy, moves
from io_kafka.step_log.layout_records import LayoutRecord
from io_kafka.step_log.state import StepLogState


def of_service(status: Mapping[str, Any]) -> dict[str, Any]:
    """The layout in a status of the service. It may be the last status of one that has ended."""
    layout, is_running = status["layout"], status["phase"] not in ENDED_PHASES
    hosts = {worker["worker"]: worker for worker in status["workers"] if is_running}
    members = [
        _member(
            int(number),
            member["birth"],
            member["slots"],
            hosts.get(int(number)),
            status.get("worker_bytes", {}).get(number),
        )
        for number, member in layout.get("members", {}).items()
    ]
    head = {name: layout.get(name) for name in ("number", "outcome", "shards", "policy")}
    found = {"is_running": is_running, **head, "members": members}
    changes = {"change": layout.get("change"), "last_change": layout.get("last_change")}
    return {**found, **changes, "fault": status["layout_fault"], "automatic": status.get("automatic")}


def of_log(record: LayoutRecord, log: StepLogState, worker_bytes: Mapping[str, int]) -> dict[str, Any]:
    """The layout of a pipeline that does not run: the owners of its last checkpoint. `worker_bytes`: as the last run has told."""
    placed, change = record.placed, None
    if log.rescale is not None and log.target is not None:
        placed = log.placed[log.checkpoints[-1]] if log.checkpoints else placed
        left = (slots.minus(log.target.owned.get(worker, NO_SLOTS)) for worker, slots in placed.owned.items())
        change = {
            "number": log.rescale.change,
            "mode": log.rescale.mode,
            "workers": len(log.target.members),
            "slots_left": sum(map(len, left)),
        }
    owned = placed.owned
    members = [
        _member(number, birth, len(owned[number]), None, worker_bytes.get(str(number)))
        for number, birth in placed.births.items()
    ]
    return {
        "is_running": False,
        "number": record.number,
        "outcome": record.outcome,
        "shards": record.shards,
        "policy": record.policy.kind,
        "members": members,
        "change": change,
        "last_change": None,
        "fault": None,
        "automatic": _recorded_bounds(log),
    }


def _recorded_bounds(log: StepLogState) -> dict[str, Any] | None:
    """Between which numbers of workers the next run chooses; None if users alone change it."""
    bounds = None if log.auto is None else log.auto.bounds
    return None if bounds is None else {"min": bounds.min, "max": bounds.max, "reason": None}


def _member(
    number: int, birth: str, slots: int, host: Mapping[str, Any] | None, state_bytes: int | None
) -> dict[str, Any]:
    """`state_bytes`: in the last checkpoint; None if that is not known."""
    return {
        "worker": number,
        "host": None if host is None else host["host"],
        "pid": None if host is None else host["pid"],
        "birth": birth,
        "slots": slots,
        "bytes": state_bytes,
        "share_percent": round(100 * slots / SLOTS, 2),
    }


def plan_of(
    origin: Layout,
    workers: int,
    policy: Policy | None,
    state_bytes: int | None,
    *,
    measured: Measured | None = None,
    free: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """What a change of `origin` to so many workers would move. Bytes are an estimate from the size of all state, None if that is not known: the
    routing hash spreads the keys evenly over the slots, but some keys have more state than others. `free`: the free bytes of the disks, by
    host."""
    target = origin.with_policy(policy or origin.policy).with_workers(workers)
    ways = [
        {"source": source, "destination": destination, "slots": len(slots), **_part(len(slots), state_bytes)}
        for (source, destination), slots in moves(origin, target).items()
    ]
    moved = sum(way["slots"] for way in ways)
    total = _part(moved, state_bytes)
    return {
        "workers": {"now": len(origin.members), "then": workers},
        "shards": {"now": origin.shards, "then": target.shards},
        "joining": sorted(set(target.members) - set(origin.members)),
        "leaving": sorted(set(origin.members) - set(target.members)),
        "moves": ways,
        "slots": moved,
        **total,
        "expected": None if total["bytes"] is None else estimate_times(total["bytes"], measured or {}),
        "free_bytes": dict(free or {}),
        "unsplit": {"slot": 0, "owner_now": origin.owners[0], "owner_then": target.owners[0]},
    }


def _part(slots: int, state_bytes: int | None) -> dict[str, Any]:
    size = None if state_bytes is None else round(state_bytes * slots / SLOTS)
    return {"share_percent": round(100 * slots / SLOTS, 2), "bytes": size}
