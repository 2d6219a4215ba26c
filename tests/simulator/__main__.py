"""`python -m tests.simulator SEED`: one seed again, with its story."""

from __future__ import annotations

import sys
import traceback

from tests.simulator.world import World


def main(arguments: list[str]) -> int:
    world = World(int(arguments[0]))
    try:
        world.run()
        verdict = 0
    except BaseException:
        verdict = 1
        failure = traceback.format_exc()
    for line in world.story.text():
        print(line)
    if verdict:
        print(failure)
    print(f"seed {world.seed}: {'failed' if verdict else 'well'}, {world.oracle.seen}, {world.scheduler.points} points")
    for kind, times in sorted(world.story.happened.items()):
        print(f"{times:6} {kind}")
    return verdict


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
