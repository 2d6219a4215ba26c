"""Samples small mistakes over all of the code, runs the tests that look at each, and lists those that no test has noticed.

    modules -> all mutants (mutator.py) -> a sample -> one copy of the tree each -> its tests -> killed, or a survivor to be judged

The breakages of `make sabotage` are the mistakes that somebody has thought of, each with the invariant that it breaks. This is a sample of those
that nobody has thought of. A survivor is a mistake that the tests miss, or a mutant that computes the same. `judged.py` says of a survivor
why it is harmless, if somebody has looked at it. The run fails if there is another one.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from tests.rooms import ROOMS
from tests.sabotage.__main__ import LANES, ROOT, _broker, _copied, _is_slow, _run
from tests.sabotage.breakages import BREAKAGES
from tests.sabotage.judged import JUDGED
from tests.sabotage.mutator import Mutant, imports_of, mutants_of

SECONDS_MAX = 300.0
"""For the tests of one mutant. One that makes them hang is noticed."""
FILES_MAX = 6
"""Test files for one mutant, the quickest first: more of them would take minutes, and rarely notice what these have not."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sabotage.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--under", default="", help="only modules whose path begins so")
    parser.add_argument("--write", type=Path, required=True, metavar="FILE", help="the survivors, as Markdown")
    given = parser.parse_args(arguments)
    chosen = sample(given.under, given.count, given.seed)
    print(f"{len(chosen)} mutants ...", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, _broker(Path(folder) / "broker"):

        def told(numbered: tuple[int, Mutant]) -> bool:
            number, mutant = numbered
            noticed = is_noticed(mutant, Path(folder) / str(number))
            print(f"  {'noticed' if noticed else 'SURVIVES':9} {mutant.file}:{mutant.line}", flush=True)
            return noticed

        with ThreadPoolExecutor(LANES) as lanes:
            noticed = list(lanes.map(told, enumerate(chosen)))
    survivors = [mutant for mutant, seen in zip(chosen, noticed, strict=True) if not seen]
    given.write.write_text(as_markdown(chosen, survivors))
    new = [mutant for mutant in survivors if reason(mutant) is None]
    print(
        f"{len(chosen) - len(survivors)} of {len(chosen)} noticed, {len(survivors) - len(new)} survivors are judged and {len(new)} are not, in "
        f"{time.monotonic() - began:.0f} s: {given.write}"
    )
    return 1 if new else 0


def sample(under: str, count: int, seed: int) -> list[Mutant]:
    """The same for the same code and seed."""
    files = sorted(str(path.relative_to(ROOT)) for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    every = [m for file in files if file.startswith(under) and files_that_test(file) for m in mutants_of(ROOT, file)]
    return random.Random(seed).sample(every, min(count, len(every)))


@cache
def files_that_test(file: str) -> list[str]:
    """The test files that import a module or notice its breakages; if there are none, those of the modules that import it. Those without Spark
    come first."""
    module = file.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
    found = _looking_at(module, file)
    if not found:
        above = [path for room in ROOMS for path in (ROOT / room).rglob("*.py") if module in imports_of(path)]
        files = [str(path.relative_to(ROOT)) for path in above]
        found = set().union(*(_looking_at(each.removesuffix(".py").replace("/", "."), each) for each in files))
    own = Path(file).stem
    return sorted(found, key=lambda test: (_is_slow(test), f"test_{own}.py" not in test, test))[:FILES_MAX]


def _looking_at(module: str, file: str) -> set[str]:
    tests = {test.split("::")[0] for b in BREAKAGES if any(e.file == file for e in b.edits) for test in b.caught_by}
    importing = (path for path in (ROOT / "tests").rglob("test_*.py") if module in imports_of(path))
    return tests | {str(path.relative_to(ROOT)) for path in importing}


def is_noticed(mutant: Mutant, folder: Path) -> bool:
    copy = _copied(folder)
    mutant.apply(copy)
    outcomes = _run(copy, ["-x", *files_that_test(mutant.file)], SECONDS_MAX)
    shutil.rmtree(copy, ignore_errors=True)
    return not outcomes or any(outcome.kind != "passed" for outcome in outcomes)


def reason(mutant: Mutant) -> str | None:
    """Why a survivor is harmless, if somebody has said it."""
    return JUDGED.get((mutant.file, *mutant.told(ROOT)))


def as_markdown(chosen: Sequence[Mutant], survivors: Sequence[Mutant]) -> str:
    lines = ["# Mutants", "", f"{len(chosen) - len(survivors)} of {len(chosen)} were noticed. The others:", ""]
    for mutant in sorted(survivors, key=lambda m: (m.file, m.line)):
        before, after = mutant.told(ROOT)
        lines += [
            f"- `{mutant.file}:{mutant.line}`: {reason(mutant) or '**not judged**'}",
            "",
            f"      - {before}",
            f"      + {after}",
            f"  tried: {', '.join(files_that_test(mutant.file))}",
            "",
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
