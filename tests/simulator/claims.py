"""The run that holds the pipeline of a world, as the claims in its log say."""

from __future__ import annotations

from tests.simulator.scheduler import Process


class Claims:
    """The last claim. `has_ended`: whether the run that made it has ended by itself."""

    def __init__(self) -> None:
        self.epoch = -1
        self.holder: Process | None = None
        self.has_ended = False

    def claim(self, epoch: int, writer: Process) -> None:
        """A run claims the pipeline."""
        assert epoch > self.epoch, f"epoch {epoch} claimed after epoch {self.epoch}"
        self.epoch, self.holder, self.has_ended = epoch, writer, False

    def check_holds(self, kind: str, epoch: int, writer: Process) -> None:
        """Whoever writes another record than a claim holds the pipeline."""
        assert epoch == self.epoch, f"a {kind} record of epoch {epoch} after the claim of epoch {self.epoch}"
        assert not self.has_ended, f"a {kind} record after the end of the run of epoch {epoch}"
        assert writer is self.holder, f"{writer.name} wrote a {kind} record, and {self.holder} holds the pipeline"
