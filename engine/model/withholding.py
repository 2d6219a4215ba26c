"""Which errors a step counts instead of ending, and which outputs it withholds.

A view is **in error** if a node that it depends on has error rows, so it has no answer. The output of such a view is **withheld**: its
changes are kept in the state, and are **kept** there. So are those of an output whose format has no message for a row of its view. When no
error rows are left it is **released**: the next step writes what was kept.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Withholding:
    """What the division of a step says of views in error.

    `nodes`: the nodes whose error rows are left out and counted. An error of any other node ends the step. `withheld`: the outputs that depend
    on these nodes; their changes are kept in the state. `released`: the outputs that were withheld until the step before; what was kept is
    written. The outputs are named by their handles."""

    nodes: frozenset[int] = frozenset()
    withheld: frozenset[str] = frozenset()
    released: frozenset[str] = frozenset()

    @property
    def outputs(self) -> frozenset[str]:
        """The outputs that read or write what is kept."""
        return self.withheld | self.released


NOTHING_WITHHELD = Withholding()
