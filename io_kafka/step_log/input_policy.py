"""What is done with messages that say no row of their table, as a division records it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from base.options import OnError, Truncate


class InputPolicy(NamedTuple):
    """By handle of the source. `on_error`: what is done with malformed messages. `dead_letters`: the topics for them, of the sources that have
    one. `truncate`: what is done with truncations, of the sources for which that is not `fail`."""

    on_error: dict[str, OnError]
    dead_letters: dict[str, str]
    truncate: dict[str, Truncate]

    def without(self, is_left_out: Callable[[str], bool]) -> InputPolicy:
        """Returns the policy without what is done with messages of these sources."""
        return InputPolicy(
            {handle: what for handle, what in self.on_error.items() if not is_left_out(handle)},
            self.dead_letters,
            {handle: what for handle, what in self.truncate.items() if not is_left_out(handle)},
        )
