"""Judges random projects: `python -m tests.fuzz --seeds 0-1000 --seconds 600`. A failing one is made smaller and printed.

With `--evolving`, each seed is a chain of projects, and a pipeline goes from each to the next. A failing one is printed."""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m")

from stepwell.spark.session import make_session
from tests.fuzz.constructs import CONSTRUCTS
from tests.fuzz.evolving import EvolvingJudge
from tests.fuzz.judge import Invalid, Judge, Wrong
from tests.fuzz.kept import written
from tests.fuzz.reduce import SECONDS_MAX, described, reduced

TOLD_EACH = 100
"""Seeds between two lines of progress."""

SLOW_SECONDS = 15.0
"""A project that takes longer is named: most take a second."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seeds", default="0-199", help="one seed, or the first and the last one: 0-199")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="how long at most")
    parser.add_argument(
        "--reduce-seconds", type=float, default=SECONDS_MAX, help="how long one failing case is made smaller"
    )
    parser.add_argument("--featured", default="", help="constructs that are in every project, with commas")
    parser.add_argument("--evolving", action="store_true", help="go from project to project instead")
    parser.add_argument("--folder", type=Path, help="also write each failing case into a file there")
    given = parser.parse_args(arguments)
    featured = tuple(given.featured.split(",")) if given.featured else ()
    if unknown := [name for name in featured if name not in CONSTRUCTS]:
        parser.error(f"no construct is called {unknown[0]}; they are {', '.join(CONSTRUCTS)}")
    first, _, last = given.seeds.partition("-")
    spark = make_session("stepwell-fuzz", {"spark.sql.shuffle.partitions": "1"})
    spark.sparkContext.setLogLevel("OFF")
    judge = Judge(spark)
    evolving = EvolvingJudge(judge) if given.evolving else None
    deadline = time.monotonic() + given.seconds
    failed = []
    for seed in range(int(first), int(last or first) + 1):
        if time.monotonic() > deadline:
            break
        began = time.monotonic()
        if evolving is not None:
            passes = _evolves(evolving, seed, featured)
        else:
            passes = _passes(judge, seed, featured, given.reduce_seconds, given.folder)
        if not passes:
            failed.append(seed)
        if (took := time.monotonic() - began) > SLOW_SECONDS:
            print(f"seed {seed} took {took:.0f} s", flush=True)
        if seed % TOLD_EACH == TOLD_EACH - 1:
            print(f"up to seed {seed}: {judge.tally if evolving is None else evolving.told}", flush=True)
    print(judge.tally if evolving is None else evolving.told)
    print("".join(f"  {count} times: {text}\n" for text, count in judge.tally.refused.most_common()), end="")
    print(f"{len(judge.tally.expressions)} expressions of the lowering table's cases were in them")
    print(f"failing seeds: {failed}" if failed else "every answer is Spark's")
    spark.stop()
    return 1 if failed else 0


def _evolves(judge: EvolvingJudge, seed: int, featured: tuple[str, ...]) -> bool:
    try:
        judge.check(seed, featured)
    except Invalid:
        judge.judge.tally.invalid += 1
    except Wrong as wrong:
        print(f"seed {seed}: {wrong}\n", flush=True)
        return False
    except Exception:
        print(
            f"seed {seed}: a mistake of the fuzzer, or an exception that nobody foresaw\n{traceback.format_exc()}",
            flush=True,
        )
        return False
    return True


def _passes(judge: Judge, seed: int, featured: tuple[str, ...], seconds: float, folder: Path | None) -> bool:
    case = None
    try:
        case = judge.case(seed, featured)
        judge.check(case)
    except Invalid as error:
        judge.tally.invalid += 1
        print(f"seed {seed} is no project of Spark's: {str(error)[:300]}", flush=True)
    except Wrong as wrong:
        assert case is not None
        text = f"seed {seed}: {wrong}\n"
        print(text, flush=True)
        small, found = reduced(case, wrong, judge.check, seconds)
        text += f"{described(small)}\n{found}\n"
        print(text, flush=True)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{seed}.sql").write_text(text)
            (folder / f"{seed}.case").write_text(written(small))
        return False
    except Exception:
        print(
            f"seed {seed}: a mistake of the fuzzer, or an exception that nobody foresaw\n{traceback.format_exc()}",
            flush=True,
        )
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
