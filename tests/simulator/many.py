"""Many seeds: which failed, how, and what befell them altogether."""
from __future__ import annotations

import sys
import time
from collections import Counter

from tests.simulator.world import World

def main() -> None:
    first, last = int(sys.argv[1]), int(sys.argv[2])
    happened: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    fails = []
    began = time.perf_counter(); worst=(0,0)
    points=0
    for seed in range(first, last):
        t=time.perf_counter()
        world = World(seed)
        try:
            world.run()
        except BaseException as e:
            fails.append((seed, f"{type(e).__name__}: {str(e)[:300]}"))
        d=time.perf_counter()-t
        points+=world.scheduler.points
        worst=max(worst,(d,seed))
        happened += world.story.happened
        seen += Counter(world.oracle.seen)
    took = time.perf_counter() - began
    for k, v in sorted(happened.items()): print(v, k)
    print(dict(seen), "points", points)
    for f in fails[:25]: print(*f)
    print(len(fails), "failed;", round(1e3*took/(last-first),1), "ms a seed; worst", worst)
main()
