"""How long the writer of the step log waits, and how often it tries."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WriterLimits:
    """Bounds of the writer's waits and retries."""

    init_seconds_max: float = 30.0
    """Measured 0.05 to 0.5 s; longer while a broker recovers the last transaction."""
    flush_seconds_max: float = 60.0
    """The time for the largest step over a slow link."""
    commit_seconds_max: float = 30.0
    """Measured 2 to 4 ms; after the deadline the log shows the outcome."""
    abort_seconds_max: float = 5.0
    """It only spares consumers a wait: the next init aborts anyway."""
    recovery_seconds_max: float = 120.0
    """A broker that restarts is back in seconds, a loaded one in a minute."""
    tries_max: int = 5
    """The number of attempts for one transaction."""
    wait_seconds_max: float = 5.0
    """The longest pause between two tries."""
    fenced_without_claim_max: int = 2
    """A transaction that timed out on the broker fences its producer without a successor."""
    fence_forgotten_commits: int = 100
    """After so many commits in a row, the fences before them are forgotten. Two runs that fence each other commit few transactions between two
    fences."""
    transaction_timeout_ms: int = 60_000
    """After it the broker aborts the transaction of a dead writer. Consumers wait that long."""


LAST_LIMITS = WriterLimits(
    init_seconds_max=5.0, flush_seconds_max=5.0, commit_seconds_max=5.0, recovery_seconds_max=5.0, tries_max=1
)
"""The limits for the record that a run has ended. A run that is stopped without a broker ends within the usual time of grace of 30 s."""
