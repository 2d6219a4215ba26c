"""The replacement of a host: everything that its workers have goes to new workers elsewhere, and they leave.

It is a rescale like any other, with two differences. Each new worker gets the slots of one that leaves, so only the state of that host
moves. And the new workers come to other hosts, or to the one that was named; the log has that, because a run that goes on with the change
after a crash must not put them back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from base.fault import ExitCode, Fault
from coordinator.rescale.requests import RescaleRefused
from engine.model.layout import Layout
from engine.resident.messages import Register
from io_kafka.step_log.layout_records import HostsPart
from storage.host_folder import StateLocation


class NoTaskThere(Fault):
    """Tasks have come, and too few of them to hosts on which the new workers may be. `came`: what is known of them."""

    exit_code = ExitCode.MACHINE

    def __init__(self, hosts: HostsPart, needed: int, came: Sequence[str], waited_s: float) -> None:
        where = f"another host than {hosts.avoided}" if hosts.wanted is None else f"host {hosts.wanted}"
        shown = ", ".join(came)
        super().__init__(
            f"{needed} workers need a task slot each on {where}, and too few tasks came there within {waited_s:g} s; the others: {shown}.",
            "Give Spark free task slots there, or take those of the host that is to be replaced away from it (stop its executor only after the "
            "change). Nothing is lost.",
        )


def without_host(
    layout: Layout, host: str, to: str | None, members: Mapping[int, Register], location: StateLocation
) -> Layout:
    """The layout without workers on `host`. `members`: what the workers have said of themselves. Raises RescaleRefused."""
    if not location.on_cluster:
        raise RescaleRefused(
            "all workers of a pipeline in local mode are on this host, and no other one can replace it; nothing was changed.",
            "To move the service to another machine, see docs/durability.md.",
        )
    leaving = [number for number, registered in members.items() if registered.is_on(host)]
    if not leaving:
        known = ", ".join(sorted({f"{each.host} ({each.address.host}, {each.folder})" for each in members.values()}))
        raise RescaleRefused(
            f"no worker is on host {host}; nothing was changed. The workers are on {known}.",
            "Name a host as `stepwell layout show` does, by its address, or by the folder of its databases if no other host has the same.",
        )
    staying = [number for number in leaving if to is not None and members[number].is_on(to)]
    if staying:
        raise RescaleRefused(
            f"{to} is host {host} itself, which worker {staying[0]} is on; nothing was changed.",
            "Name another host, or none: `stepwell layout replace HOST`.",
        )
    return layout.with_replaced(leaving)
