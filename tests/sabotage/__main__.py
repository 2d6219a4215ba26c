"""Breaks the code on purpose, one breakage at a time, and says which tests noticed.

    git's files -> a separate folder -> the breakage's edits -> its tests, by pytest -> did each fail, and for the right reason?

The working tree is never changed. First the tests of all breakages run on a copy that is not broken, and they must pass there, because a test
that fails anyway catches nothing. One broker serves all runs, because starting one would take longer than most runs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from io_kafka.broker.local import LocalBroker
from tests.sabotage.breakage import Breakage
from tests.sabotage.breakages import BREAKAGES
from tests.sabotage.outcomes import OUTCOMES_VARIABLE, PROFILE, Outcome
from tests.sabotage.report import Verdict, as_markdown, as_text

ROOT = Path(__file__).resolve().parents[2]
BOOTSTRAP_VARIABLE = "STEPWELL_TEST_BOOTSTRAP"

LANES = 2
"""The number of parallel runs. A run spends half of its time in Spark and the other half waiting for the broker."""

RUN_SECONDS_MAX = 300.0
"""The deadline for the tests of one breakage, which take seconds. A breakage that makes a test hang is not caught."""

EXAMPLES = "0.4"
"""The share of the examples of property tests that breakages were tried with (tests/examples.py). Each of them has to be noticed by these."""

# Undefined names and code that does not parse. A breakage must be a mistake that somebody could have made and shipped.
LINT = (sys.executable, "-m", "ruff", "check", "-q", "--isolated", "--no-cache", "--select", "E9,F821,F822,F823")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sabotage", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of breakages; all of them without one")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the table, as Markdown")
    parser.add_argument("--list", action="store_true", help="name the breakages and do nothing")
    given = parser.parse_args(arguments)
    known = {breakage.name: breakage for breakage in BREAKAGES}
    if unknown := sorted(set(given.names) - known.keys()):
        parser.error(f"no breakage is called {', '.join(unknown)}; --list names them all")
    chosen = [known[name] for name in given.names] or list(BREAKAGES)
    if given.list:
        print("\n".join(f"{breakage.name:34} {breakage.does}" for breakage in chosen))
        return 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sabotage-") as folder, _broker(Path(folder) / "broker"):
        if not _unbroken_passes(chosen, Path(folder)):
            return 2
        verdicts = _all(chosen, Path(folder))
    seconds = time.monotonic() - began
    print(as_text(verdicts, seconds))
    if given.write is not None:
        given.write.write_text(as_markdown(verdicts, seconds))
    return 0 if all(verdict.caught for verdict in verdicts) else 1


@contextmanager
def _broker(folder: Path) -> Iterator[None]:
    if BOOTSTRAP_VARIABLE in os.environ:
        yield
        return
    folder.mkdir()
    broker = LocalBroker(folder).start(die_with_parent=True)
    os.environ[BOOTSTRAP_VARIABLE] = broker.bootstrap_servers
    try:
        yield
    finally:
        del os.environ[BOOTSTRAP_VARIABLE]
        broker.stop()


def _unbroken_passes(chosen: Sequence[Breakage], folder: Path) -> bool:
    """Whether all tests that must catch a breakage pass while nothing is broken. Only then does their failure prove anything."""
    tests = list(dict.fromkeys(test for breakage in chosen for test in breakage.caught_by))
    print(f"{len(tests)} tests without any breakage ...", flush=True)
    slow = [test for test in tests if _is_slow(test)]
    halves = {"slow": slow, "quick": [test for test in tests if test not in slow]}

    def half(name: str) -> list[Outcome]:
        return _run(_copied(folder / name), halves[name], 3 * RUN_SECONDS_MAX) if halves[name] else []

    with ThreadPoolExecutor(LANES) as lanes:
        outcomes = [outcome for found in lanes.map(half, halves) for outcome in found]
    wrong = [outcome for outcome in outcomes if outcome.kind != "passed"]
    for outcome in wrong:
        print(f"  fails though nothing is broken: {outcome.test}: {outcome.said}")
    missing = [test for test in tests if not any(_is_of(outcome, test) for outcome in outcomes)]
    for test in missing:
        print(f"  did not run: {test}")
    return not wrong and not missing


def _all(chosen: Sequence[Breakage], folder: Path) -> list[Verdict]:
    slow_first = sorted(chosen, key=lambda breakage: not any(map(_is_slow, breakage.caught_by)))

    def told(breakage: Breakage) -> Verdict:
        verdict = _verdict(breakage, folder)
        print(
            f"  {'caught' if verdict.caught else 'NOT CAUGHT':10} {breakage.name} ({verdict.seconds:.0f} s)", flush=True
        )
        return verdict

    print(f"{len(chosen)} breakages ...", flush=True)
    with ThreadPoolExecutor(LANES) as lanes:
        by_name = {verdict.breakage.name: verdict for verdict in lanes.map(told, slow_first)}
    return [by_name[breakage.name] for breakage in chosen]


def _is_slow(test: str) -> bool:
    """Whether its tests start Spark. This is a guess that only affects the order of the work."""
    return test.startswith(("tests/end_to_end", "tests/stepwell", "tests/coordinator/starting/test_refresh"))


def _verdict(breakage: Breakage, folder: Path) -> Verdict:
    began = time.monotonic()
    copy = _copied(folder / breakage.name)
    breakage.apply(copy)
    files = sorted({edit.file for edit in breakage.edits if edit.file.endswith(".py")})
    if files:
        subprocess.run([*LINT, *files], cwd=copy, check=True)
    outcomes = _run(copy, breakage.caught_by, RUN_SECONDS_MAX)
    shutil.rmtree(copy, ignore_errors=True)
    return judged(breakage, outcomes, time.monotonic() - began)


def judged(breakage: Breakage, outcomes: Sequence[Outcome], seconds: float) -> Verdict:
    """Judges a breakage. A test has caught it if it failed by an assertion, or by one of our errors that says what the breakage expects."""
    failures: list[Outcome] = []
    silent: list[str] = []
    for test in breakage.caught_by:
        mine = [outcome for outcome in outcomes if _is_of(outcome, test)]
        good = [outcome for outcome in mine if _is_proof(breakage, outcome)]
        failures += good[:1]
        if not good:
            silent += [f"{o.test}: {o.kind} {o.said}".rstrip() for o in mine] or [f"{test}: no outcome in time"]
    return Verdict(breakage, failures, silent, seconds)


def _is_proof(breakage: Breakage, outcome: Outcome) -> bool:
    if outcome.kind == "own error":
        return breakage.tells is not None and re.search(breakage.tells, outcome.said) is not None
    return outcome.kind == "assertion"


def _is_of(outcome: Outcome, test: str) -> bool:
    return outcome.test == test or outcome.test.startswith((f"{test}[", f"{test}::"))


def _copied(target: Path) -> Path:
    """Copies the files that git tracks or would add, as they are in the working tree, and the C extension as it was built."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    built = [str(file.relative_to(ROOT)) for file in ROOT.glob("io_kafka/*/_*.so")]
    for name in filter(None, [*listed.stdout.decode().split("\0"), *built]):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


def _run(copy: Path, tests: Sequence[str], seconds_max: float) -> list[Outcome]:
    """The outcomes of `tests` in a copy of the tree; none if they did not end in time."""
    found = copy / "outcomes.json"
    command = [sys.executable, "-m", "pytest", "-p", "tests.sabotage.outcomes", "-p", "no:cacheprovider"]
    command += [f"--hypothesis-profile={PROFILE}", "--hypothesis-seed=0", "-m", "not soak", *tests]
    environment = {"TEST_EXAMPLES": EXAMPLES, **os.environ, "PYTHONPATH": str(copy), OUTCOMES_VARIABLE: str(found)}
    with (copy / "pytest.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=copy, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            print(f"  no end in {seconds_max:.0f} s: {' '.join(tests)}", flush=True)
        finally:
            _end(process)
    if not found.exists():
        print((copy / "pytest.log").read_text(errors="replace")[-2000:], flush=True)
        return []
    return [Outcome(**outcome) for outcome in json.loads(found.read_text())]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kills the process and all processes that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
