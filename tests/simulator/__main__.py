"""`python -m tests.simulator SEED`: one seed again, with its story.
`python -m tests.simulator FIRST LAST`: many, with the seeds that fail and the faults that happened."""

from __future__ import annotations

import sys
import traceback

from tests.simulator.seeds import Failure, Findings, run
from tests.simulator.world import World

FAILURES_SHOWN = 25


def main(arguments: list[str]) -> int:
    if len(arguments) == 2:
        return many(int(arguments[0]), int(arguments[1]))
    if len(arguments) != 1:
        print(__doc__)
        return 2
    world = World(int(arguments[0]))
    failure = None
    try:
        world.run()
    except Exception:
        failure = traceback.format_exc()
    print("\n".join(world.story.text()))
    if failure is not None:
        print(failure)
    print(f"seed {world.seed}: {'well' if failure is None else 'failed'}, {world.scheduler.points} points")
    return failure is not None


def many(first: int, last: int) -> int:
    def tell(failure: Failure) -> None:
        print(f"seed {failure.seed}: {failure.text.splitlines()[-2][:300]}", flush=True)

    findings = run(range(first, last), FAILURES_SHOWN, tell=tell)
    show(findings)
    return bool(findings.failures)


def show(findings: Findings) -> None:
    for kind, times in sorted(findings.happened.items()):
        print(f"{times:8} {kind}")
    print(f"{findings.seeds} seeds, {findings.points} points, {dict(findings.seen)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
