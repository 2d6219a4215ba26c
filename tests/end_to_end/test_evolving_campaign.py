"""A campaign of changes: a pipeline goes from project to project under load, while processes are lost, layouts change and input expires.

Drawn are the projects, how each change is made, and what happens meanwhile. After each change the topics and the views are judged
(evolving_judge.py). `SOAK_EVOLVING` says how many rounds there are, and `SOAK_EVOLVING_FIRST` the seed of the first one. A round has
a pipeline of its own, so it can be repeated alone: what is drawn follows from its seed, and only the moments differ.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from base.fault import ExitCode
from coordinator.revisions.document import PlanDocument, document_of
from coordinator.topic_names import is_table_topic
from io_kafka.clients.plan_topic import read_plan
from io_kafka.offsets import TopicPartition
from stepwell.errors import StepwellError
from stepwell.inspection.query import query, query_next
from stepwell.planning.plans import ResolvedProject
from stepwell.service.client import ControlClient
from tests.end_to_end.evolving_family import KINDS, Drawing, Project
from tests.end_to_end.evolving_feed import Feed
from tests.end_to_end.evolving_judge import InForce, Judge, dead_letters
from tests.end_to_end.harness import Playground, Resolved, answer_of, pids, service
from tests.end_to_end.oracle import Violated
from tests.end_to_end.oracle_rows import Answer
from tests.end_to_end.test_processes import java_of
from tests.schema_registry import SchemaRegistry, schema_registry

pytestmark = pytest.mark.soak

ROUNDS = int(os.environ.get("SOAK_EVOLVING", "6"))
FIRST = int(os.environ.get("SOAK_EVOLVING_FIRST", "0"))

CHANGES = int(os.environ.get("SOAK_EVOLVING_CHANGES", "3"))
"""Of one round."""

EVENTS_MAX = 3
"""In one change."""

LEG_SECONDS_MAX = 300.0
"""For one change, with all that happens meanwhile."""

HOLDS_MAX = 20
"""Times that a switch is asked for before the change is given up: what holds it may never end."""

SILENCE = "2s"
SLEEP_SECONDS = (0.5, 4.0)
"""Shorter and longer than a worker may be silent."""

EXPIRING = ("clicks", "sales", "moves", "ticks")
"""Topics whose messages expire. What is read again of a keyed topic cannot be counted from now on, so such a change would only be refused."""


@pytest.mark.parametrize("seed", range(FIRST, FIRST + ROUNDS))
def test_from_project_to_project(play: Playground, tmp_path: Path, seed: int) -> None:
    with schema_registry() as registry:
        campaign = Campaign(play, tmp_path, registry, seed)
        campaign.run()
        print(f"seed {seed}: {campaign.judged} judged, {campaign.rows} rows; {dict(sorted(campaign.counts.items()))}")


@dataclass(frozen=True)
class Choices:
    """`append`: kinds of views whose output gets only what comes out from the switch on. `retract`: topics."""

    from_now: tuple[str, ...] = ()
    append: tuple[str, ...] = ()
    retract: tuple[str, ...] = ()
    reload: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wish:
    """A change that is to be made. `kept`: see InForce."""

    project: Project
    resolved: Resolved
    kept: ResolvedProject
    choices: Choices
    hold: bool

    def body(self) -> dict[str, Any]:
        names = {kind: view.name for kind, view in self.project.views.items()}
        chosen = self.choices
        prefix = self.resolved.spec.name.removesuffix("pipeline")
        return {
            "hold": self.hold,
            "from_now": list(chosen.from_now),
            "append_from_now": [names[kind] for kind in chosen.append],
            "retract": [prefix + topic for topic in chosen.retract],
            "reload": list(chosen.reload),
        }

    def arguments(self) -> list[str]:
        body = self.body()
        found = [each for name in body["from_now"] for each in ("--from-now", name)]
        found += [each for name in body["append_from_now"] for each in ("--append", f"{name}=from-now")]
        found += [each for name in body["retract"] for each in ("--retract", name)]
        return found + [each for name in body["reload"] for each in ("--reload", name)]


@dataclass
class Campaign:
    """One round. `log`: of the service. `counts`: what has happened, by kind."""

    play: Playground
    folder: Path
    registry: SchemaRegistry
    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    judged: int = 0
    rows: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.drawing = Drawing(random.Random(self.seed))
        self.zones = self.folder / "zones.csv"
        self.zones_version = 0
        self._write_zones()
        self.log = self.folder / "service.log"
        self.log.touch()
        self.conf = {
            "stepwell.step.rows.max": self.chance.choice((20, 60, 400)),
            "stepwell.workers": self.chance.randint(1, 3),
            "stepwell.checkpoint.interval": self.chance.choice(("400ms", "1s", "1h")),
            "stepwell.worker.silence": SILENCE,
            "stepwell.registry.url": self.registry.url,
        }
        self.began = time.monotonic()
        self.process: subprocess.Popen[bytes] | None = None
        self.stack = ExitStack()
        self.killed_steps = -1
        self.copies = 0
        self.way: tuple[str, ...] = ()
        self.log_at = 0
        self.expired: set[str] = set()

    # The round

    def run(self) -> None:
        feed = Feed(self.play, self.registry, random.Random(self.seed))
        self.feed = feed
        feed.burst(10)
        project = self.drawing.first()
        resolved = self._resolved(project)
        self.judge = Judge(self.play, self.registry, InForce(project, resolved, self._kept(resolved), 0, {}))
        self.client = ControlClient(resolved.project.project.state_folder)
        self.tell(f"first: {sorted(project.views)}; {self.conf}")
        with self.judge.oracle, feed, self.stack:
            self._start()
            self.wait_for(lambda status: status["phase"] == "run" and status["steps_run"] > 0)
            feed.go_on()
            for number in range(CHANGES):
                self._change(number)
                self._judge()
            if self.chance.random() < 0.25:
                self._refresh()
            self._end()

    def _resolved(self, project: Project) -> Resolved:
        """Writes its files too."""
        for file in (self.play.folder / "transformations").glob("*"):
            file.unlink()
        return self.play.resolve(project.files(self.zones), self.conf)

    def _kept(self, resolved: Resolved) -> ResolvedProject:
        """Over a copy of the files."""
        self.copies += 1
        copy, of_files = self.folder / f"copy{self.copies}", resolved.project.project
        shutil.copytree(of_files.root / "transformations", copy / "transformations")
        return replace(resolved.project, project=replace(of_files, root=copy))

    def _write_zones(self) -> None:
        zones = "XYZW"[: 2 + self.zones_version % 3]
        lines = (f"p{page},{zones[(page + self.zones_version) % len(zones)]}\n" for page in range(8))
        self.zones.write_text("".join(lines))

    # The service

    def _start(self, *arguments: str) -> None:
        self.count(f"run {' '.join(a for a in arguments if a.startswith('--'))}".strip())
        self.tell(f"start {arguments}")
        self.way, self.log_at, self.killed_steps = arguments, self.log.stat().st_size, -1
        self.process = self.stack.enter_context(service(self.judge.now.resolved, self.log, *arguments))

    @property
    def lives(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def status(self) -> dict[str, Any] | None:
        if not self.lives:
            return None
        with suppress(StepwellError):
            found = self.client.status()
            assert self.process is not None
            return found if found["phase"] not in ("starting",) else None
        return None

    def wait_for(self, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first status that is so. The service has to live."""
        found: list[dict[str, Any]] = []

        def look() -> bool:
            assert self.lives, f"the service ended: {self._exit_code()}: {self._said()}"
            if (status := self.status()) is not None:
                found.append(status)
            return bool(found) and reached(found[-1])

        deadline = time.monotonic() + LEG_SECONDS_MAX
        while not look():
            assert time.monotonic() < deadline, f"the last status is {found[-1:]}; {self._said()}"
            time.sleep(0.05)
        return found[-1]

    def _exit_code(self) -> int | None:
        return None if self.process is None else self.process.poll()

    def _said(self) -> str:
        """By the last service."""
        return self.log.read_text()[self.log_at :][-4000:]

    # A change

    def _change(self, number: int) -> None:
        project, edits = self.drawing.next(self.judge.now.project)
        wish = self._wish(project)
        self.tell(f"change {number}: {edits}; {wish.choices}{' held' if wish.hold else ''}")
        self.counts.update(edit.split()[0] for edit in edits)
        self.left = self.chance.randint(0, EVENTS_MAX)
        self.deadline = time.monotonic() + LEG_SECONDS_MAX
        self.holds = 0
        self._ways(wish)

    def _wish(self, project: Project) -> Wish:
        """With choices that have an effect, as far as that can be told."""
        chance, before = self.chance, self.judge.now.project
        append = [
            kind
            for kind, view in project.views.items()
            if view.mode == "append"
            and (
                kind not in before.views
                or before.views[kind].topic != view.topic
                or before.views[kind].query != view.query
            )
            and (
                chance.random() < 0.4
                or (kind == "counted" and kind in before.views and before.views[kind].topic == view.topic)
            )
        ]
        gone = [
            str(view.topic)
            for kind, view in before.views.items()
            if view.topic
            and view.mode != "append"
            and (kind not in project.views or project.views[kind].topic != view.topic)
        ]
        retract = [topic for topic in gone if chance.random() < 0.5]
        reload = ()
        if "zoned" in before.views and before.views["zoned"] and "zoned" in project.views and chance.random() < 0.4:
            self.zones_version += 1
            reload = ("zones.csv",)
        self._write_zones()
        from_now = ("clicks",) if chance.random() < 0.15 else ()
        choices = Choices(from_now, tuple(append), tuple(retract), reload)
        resolved = self._resolved(project)
        return Wish(project, resolved, self._kept(resolved), choices, hold=chance.random() < 0.3)

    def _ways(self, wish: Wish) -> None:
        """Until the change is made, or given up."""
        asked_ends = self._ends()
        first = self.chance.random()
        if first < 0.2:
            self._end_service()
            self._start("--apply", *wish.arguments())
        elif first < 0.3:
            self._kill([self._pid()])
            self._start("--apply", "--available-now", *wish.arguments())
        is_asked = first < 0.3
        self.given_up = False
        while True:
            assert time.monotonic() < self.deadline, f"the change does not end: {self.status()}: {self._said()}"
            if not self.lives:
                wish = self._again(wish)
                is_asked = True
                continue
            status = self.status()
            if status is None or status["phase"] not in ("run", "paused"):
                time.sleep(0.05)
                continue
            if status["transition"] is None:
                if self._is_in_force(wish):
                    self._switched(wish, asked_ends)
                    return
                if self.given_up:
                    self._take_back(wish)
                    return
                if self._is_preparing_by_itself(is_asked):
                    time.sleep(0.1)
                    continue
                wish = self._ask(wish)
                is_asked = False
                continue
            self._under_way(wish, status)
            time.sleep(0.05)

    def _is_preparing_by_itself(self, is_asked: bool) -> bool:
        """After `run --apply`: the request is made when the service runs."""
        if not is_asked:
            return False
        self.waited = getattr(self, "waited", 0) + 1
        if self.waited < 30:
            return True
        self.waited = 0
        return False

    def _ask(self, wish: Wish) -> Wish:
        """Applies it, through HTTP or the command. Returns the wish as it is after a refusal."""
        self.count("apply")
        try:
            if self.chance.random() < 0.2:
                self._command(wish)
            else:
                self.client.ask_revision("apply", wish.body())
        except StepwellError as fault:
            return self._refused(wish, f"{fault.message} {fault.what_to_do}")
        self.tell("accepted")
        return wish

    def _command(self, wish: Wish) -> None:
        """Raises StepwellError."""
        self.count("apply by the command")
        hold = ["--hold"] if wish.hold else []
        command = ["-m", "stepwell.cli", "apply", "--yes", "--no-wait", *hold, *wish.arguments(), "--spec"]
        where = str(wish.resolved.project.project.spec_file)
        done = subprocess.run(
            [sys.executable, *command, where],
            capture_output=True,
            text=True,
            timeout=LEG_SECONDS_MAX,
            check=False,
        )
        if done.returncode:
            raise StepwellError(done.stdout + done.stderr, "")

    def _refused(self, wish: Wish, said: str) -> Wish:
        self.tell(f"refused: {said[:1500]}")
        if (
            "is under way" in said
            or "the service starts" in said
            or "does not answer" in said
            or "is in force now" in said
        ):
            return wish
        if "no service runs" in said or "service stops" in said or "is ending" in said or "has ended" in said:
            return wish
        self.count("refused")
        choices = wish.choices
        if "offsets are missing" in said or "begins at" in said:
            assert any(self.play.prefix + topic in said for topic in self.expired), f"nothing has expired: {said}"
            named = {name for name in re.findall(r"--from-now (\w+)", said) if name in self.feed.spread} - {
                *choices.from_now
            }
            if named:
                self.count("from now because of expired input")
                append = [kind for kind in ("heavy", "pages", "counted") if self._is_rebuilt_append(wish, kind)]
                from_now = tuple(sorted({*choices.from_now, *named}))
                return replace(
                    wish, choices=replace(choices, from_now=from_now, append=tuple({*choices.append, *append}))
                )
            self.given_up = True
            return wish
        if "has the name of the view" in said or "rows with other columns" in said:
            # A view with keys in Avro was renamed, or a column of a changelog has another type.
            self.given_up = True
            return wish
        if "--from-now" in said and choices.from_now:
            return replace(wish, choices=replace(choices, from_now=()))
        if "--append" in said and choices.append:
            return replace(wish, choices=replace(choices, append=()))
        if "--append" in said and not choices.append:
            return replace(wish, choices=replace(choices, append=("counted",)))
        raise AssertionError(f"refused without a reason that the campaign knows: {said}")

    def _is_rebuilt_append(self, wish: Wish, kind: str) -> bool:
        before, now = self.judge.now.project.views.get(kind), wish.project.views.get(kind)
        return before is not None and now is not None and now.mode == "append" and before.query != now.query

    def _under_way(self, wish: Wish, status: Mapping[str, Any]) -> None:
        under_way = status["transition"]
        if self.left and self.chance.random() < 0.25:
            self.left -= 1
            self._event(under_way)
            return
        if under_way["is_paused"]:
            self._turn("resume")
        elif status["phase"] == "paused":
            self.ask("resume")
        elif under_way["phase"] == "held":
            self._held(wish, under_way)
        elif under_way["phase"] == "detached":
            self._detached(under_way)

    def _held(self, wish: Wish, under_way: Mapping[str, Any]) -> None:
        because = under_way["held_because"]
        self.tell(f"held: {because[:300]}")
        self.count(f"held: {' '.join(because.split()[:3]) if not because[0].isdigit() else 'rows'}")
        self.holds += 1
        if (
            self.holds > HOLDS_MAX
            or "taken back from append output" in because
            or "stepwell.switch.rows.max" in because
        ):
            self.given_up = True
            self._turn("abort")
            return
        if "asked for" in because:
            self._look_ahead(wish)
        if "rows in error" in because:
            self.feed.correct()
            time.sleep(1.0)
        self._turn("switch")
        time.sleep(0.3)

    def _look_ahead(self, wish: Wish) -> None:
        """What `query --next` says is Spark's answer over what the last checkpoint has read. Views with marks are judged after the switch."""
        if wish.choices.from_now or self.judge.now.marks or self.chance.random() < 0.4:
            return
        circuit = wish.resolved.spec.circuit
        following = InForce(wish.project, wish.resolved, wish.kept, 0, {})
        for view in wish.project.views.values():
            if KINDS[view.kind].mode == "append":
                continue
            try:
                read = partial(self.client.views, next_of=circuit.fingerprint)
                told = query_next(wish.resolved.project, circuit, f"SELECT * FROM {view.name}", read)
            except StepwellError as fault:
                self.tell(f"query --next of {view.name}: {fault.message[:200]}")
                continue
            self.judge.keep(self._topics(wish.resolved) | self._topics(self.judge.now.resolved))
            found = self.judge.of_next(following, view.name, answer_of(told.rows), told.version.step)
            self.count("views of the next revision")
            assert not found, f"query --next: {found}"
            return

    def _detached(self, under_way: Mapping[str, Any]) -> None:
        self.tell(f"detached: {under_way['error'][:300]}")
        self.count("detached")
        if "is gone" in under_way["error"] or self.chance.random() < 0.3:
            self.given_up = True
            self._turn("abort")
        else:
            self._turn("resume")

    def _turn(self, what: str) -> bool:
        try:
            self.client.ask_revision(what)
        except StepwellError as fault:
            self.tell(f"{what} refused: {fault.message[:200]}")
            return False
        self.count(f"revision {what}")
        self.tell(f"revision {what}")
        return True

    def ask(self, what: str) -> None:
        with suppress(StepwellError):
            self.client.ask(what)
            self.count(what)

    # Its end

    def _document(self) -> PlanDocument:
        resolved = self.judge.now.resolved
        record = self.play.log(resolved).revision
        assert record is not None
        return document_of(read_plan(self.play.settings, resolved.spec.plan_topic, record.plan))

    def _is_in_force(self, wish: Wish) -> bool:
        document = self._document()
        fingerprint = document.fingerprint_of_files or document.circuit.fingerprint
        return fingerprint == wish.resolved.spec.circuit.fingerprint and (
            not wish.choices.reload or self._revision() > self.revision
        )

    def _revision(self) -> int:
        record = self.play.log(self.judge.now.resolved).revision
        assert record is not None
        return record.number

    revision = 1

    def _switched(self, wish: Wish, asked_ends: Mapping[TopicPartition, int]) -> None:
        self.count("switched")
        record = self.play.log(wish.resolved).revision
        assert record is not None and record.number > self.revision, f"{record} after revision {self.revision}"
        self.revision = record.number
        now = InForce(wish.project, wish.resolved, wish.kept, record.step, self._marks(asked_ends))
        self.tell(f"revision {record.number} from step {record.step} on; marks {now.marks}")
        self.judge.switched(now, wish.choices.append, wish.choices.retract)

    def _marks(self, asked_ends: Mapping[TopicPartition, int]) -> dict[str, dict[tuple[str, int], int]]:
        """By view. A new mark lies between what was there when the change was drawn, and what is there now."""
        document, found = self._document(), dict[str, dict[tuple[str, int], int]]()
        offsets = {source.table.handle: dict(source.table.counts_from or ()) for source in document.inputs}
        ends = self._ends()
        for view, marks in document.marks.items():
            found[view] = {(w.topic, w.partition): at for marked in marks.values() for w, at in offsets[marked].items()}
            for marked in marks.values():
                for where, at in offsets[marked].items():
                    assert at <= ends[where], f"{view} counts {where} from {at} on, and it ends at {ends[where]}"
        return found

    def _take_back(self, wish: Wish) -> None:
        """The change is given up: the files are those of the project in force again."""
        self.count("given up")
        if wish.choices.reload:
            self.zones_version -= 1
            self._write_zones()
        self._resolved(self.judge.now.project)

    def _ends(self) -> dict[TopicPartition, int]:
        names = [self.play.prefix + name for name in self.feed.spread]
        return dict(self.play.topics.end_offsets(names))

    # Losses

    def _pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def _kill(self, victims: list[int]) -> None:
        for pid in victims:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self._pid() in victims:
            assert self.process is not None
            self.process.wait()
            self.is_expected = True

    is_expected = False

    def _again(self, wish: Wish) -> Wish:
        """Starts a service that has ended, in one of the ways that are possible then. Returns the wish as it is after a refusal."""
        code = self._exit_code()
        expected = (0, int(ExitCode.DATA)) if "--available-now" in self.way else (0,)
        if "--apply" in self.way and code in (int(ExitCode.PROJECT), int(ExitCode.STATE)) and not self.is_expected:
            wish = self._refused(wish, self._said())
        else:
            assert self.is_expected or code in expected, f"the service ended by itself: {code}: {self._said()}"
        self.is_expected = False
        self.tell(f"the service has ended: {code}")
        log = self.play.log(wish.resolved)
        is_under_way = log.revisions.phase is not None
        is_done = not is_under_way and self._is_in_force(wish)
        ways = [["--apply", *([] if is_done or is_under_way else wish.arguments())], ["--as-recorded"]]
        if is_under_way or is_done:
            ways += [[], []]
        if self.given_up and not is_under_way:
            ways = [["--as-recorded"]]
        way = self.chance.choice(ways)
        if self.chance.random() < 0.2:
            way = [*way, "--available-now"]
        if self.chance.random() < 0.15 and "--available-now" not in way:
            way = [*way, "--workers", str(self.chance.randint(1, 4))]
        self._start(*way)
        return wish

    def _end_service(self) -> None:
        self.ask("stop")
        assert self.process is not None
        code = self.process.wait(180)
        assert code in (0, int(ExitCode.DATA)), f"a stop has ended with {code}: {self._said()}"

    def _event(self, under_way: Mapping[str, Any]) -> None:
        name, act = self.chance.choice(
            [
                ("kill service", self._kill_service),
                ("kill service", self._kill_service),
                ("kill worker", lambda: self._lose_workers(1, signal.SIGKILL)),
                ("kill all workers", lambda: self._lose_workers(9, signal.SIGKILL)),
                ("sleeping worker", lambda: self._lose_workers(1, signal.SIGSTOP)),
                ("sleeping service", self._sleep_service),
                ("kill JVM", self._kill_jvm),
                ("stop", self._end_service),
                ("revision pause", lambda: self._turn("pause")),
                ("revision abort", self._abort),
                ("revision switch", lambda: self._turn("switch")),
                ("layout", self._layout),
                ("layout", self._layout),
                ("checkpoint", lambda: self.ask("checkpoint")),
                ("pause", lambda: self.ask("pause")),
                ("expire", self._expire),
                ("expire", self._expire),
                ("grow", self._grow),
                ("error", self.feed.err),
                ("burst", lambda: self._burst()),
            ]
        )
        time.sleep(0.8 * self.chance.random() ** 2)  # a random moment, not a guess of one
        if not self.lives:
            return
        self.count(name)
        self.tell(f"{name}, while {under_way['phase']} {under_way['filled']}")
        act()

    def _kill_service(self) -> None:
        self._kill([self._pid()])

    def _kill_jvm(self) -> None:
        with suppress(ValueError, psutil.Error):
            java_of(self.process).kill()  # type: ignore[arg-type]
            assert self.process is not None
            code = self.process.wait(180)
            assert code == ExitCode.MACHINE, f"{code}: {self._said()}"
            self.is_expected = True

    def _sleep_service(self) -> None:
        os.kill(self._pid(), signal.SIGSTOP)
        time.sleep(self.chance.choice(SLEEP_SECONDS))
        os.kill(self._pid(), signal.SIGCONT)

    def _lose_workers(self, count: int, number: signal.Signals) -> None:
        """Not again before a step: three losses without one end a run."""
        status = self.status()
        if status is None or status["steps_run"] + status["steps_replayed"] <= self.killed_steps:
            return
        self.killed_steps = status["steps_run"] + status["steps_replayed"]
        found = pids(status)
        victims = self.chance.sample(found, min(count, len(found)))
        for pid in victims:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        if number == signal.SIGSTOP:
            time.sleep(self.chance.choice(SLEEP_SECONDS))
            for pid in victims:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def _abort(self) -> None:
        if self._turn("abort"):
            self.given_up = self.chance.random() < 0.5

    def _layout(self) -> None:
        mode = self.chance.choice(("live", "live", "cold"))
        body = {"workers": self.chance.randint(1, 4), "mode": mode}
        try:
            if self.chance.random() < 0.2:
                self.client.ask_layout(self.chance.choice(("reverse", "abort", "pause", "resume")))
            else:
                self.client.ask_layout("change", body)
            self.tell(f"layout {body}")
        except StepwellError as fault:
            self.tell(f"layout refused: {fault.message[:200]}")

    def _expire(self) -> None:
        """Messages that are in a checkpoint of the project in force."""
        topic = self.play.prefix + self.chance.choice(EXPIRING)
        with self.feed.resting():
            self.judge.keep([topic])
            ends = self._checkpointed(topic)
        below = {where: int(end * self.chance.choice((0.5, 1))) for where, end in ends.items() if end}
        if below:
            self.expired.add(topic.removeprefix(self.play.prefix))
            self.play.topics.delete_below(below)
            self.tell(f"expired {below}")

    def _checkpointed(self, topic: str) -> dict[TopicPartition, int]:
        """How far a topic is in the last complete checkpoint, as the step log says."""
        log = self.play.log(self.judge.now.resolved)
        if not log.checkpoints:
            return {}
        ends = self.judge.oracle.boundary(log.checkpoints[-1].step - 1)
        return {TopicPartition(*place): end for place, end in ends.items() if place[0] == topic}

    def _grow(self) -> None:
        count = len({w for w in self._ends() if w.topic == self.play.prefix + "clicks"})
        if count < 6:
            self.play.grow("clicks", count + 1)
            self.feed.also_to("clicks", count)

    def _burst(self) -> None:
        with self.feed.resting():
            self.feed.burst(self.chance.randint(10, 40))

    # What is right

    @contextmanager
    def _at_rest(self) -> Iterator[dict[str, Any]]:
        """All input is in a checkpoint, and nothing comes."""
        self.feed.correct()
        if self.chance.random() < 0.3:
            self.feed.err()
            self.count("judged with rows in error")
        with self.feed.resting():
            read = self._topics(self.judge.now.resolved)
            ends = {where: end for where, end in self._ends().items() if where.topic in read and end}
            if self.lives and "--available-now" in self.way:  # it ends by itself, at any moment
                assert self.process is not None
                self.process.wait(LEG_SECONDS_MAX)
            if not self.lives:
                self._start("--as-recorded")
            self.wait_for(lambda status: status["phase"] == "run" and "change" not in status["layout"])

            def is_read() -> bool:
                log = self.play.log(self.judge.now.resolved)
                is_divided = all(log.next_offsets.get(where, 0) >= end for where, end in ends.items())
                return (
                    is_divided and log.steps == log.division_next
                )  # otherwise the checkpoint may be before the last step

            self.wait_for(lambda status: is_read())
            self.ask("checkpoint")

            def is_checkpointed() -> bool:
                log = self.play.log(self.judge.now.resolved)
                return bool(log.checkpoints) and log.checkpoints[-1].step == log.steps == log.division_next

            status = self.wait_for(lambda status: is_checkpointed())
            yield status

    @staticmethod
    def _topics(resolved: Resolved) -> set[str]:
        """Of the sources, without those of batch tables."""
        names = {topic for source in resolved.project.sources for topic in source.topics}
        return {name for name in names if not is_table_topic(resolved.spec.name, name)}

    def _judge(self) -> None:
        sources = [source for view in self.judge.now.resolved.project.sources for source in view.topics]
        with self._at_rest() as status:
            self.judge.keep(
                [topic for topic in sources if not is_table_topic(self.judge.now.resolved.spec.name, topic)]
            )
            log = self.play.log(self.judge.now.resolved)
            self.judge.judge(status, log, self._contents(status))
            self._nothing_is_left()
        self.judged += 1
        self.rows = self.judge.rows

    def _contents(self, status: Mapping[str, Any]) -> dict[str, Answer]:
        """Of the views that are kept and have an answer."""
        now, found = self.judge.now, {}
        for view in now.project.views.values():
            if KINDS[view.kind].mode != "append" and view.name not in status["in_error"]:
                told = query(now.resolved.project, now.resolved.spec.circuit, f"SELECT * FROM {view.name}")
                found[view.name] = answer_of(told.rows)
        return found

    def _nothing_is_left(self) -> None:
        resolved, log = self.judge.now.resolved, self.play.log(self.judge.now.resolved)
        there = {name for name in self.play.topics.names() if is_table_topic(resolved.spec.name, name)}
        assert there == set(log.tables), f"the topics of loads are {there}, and the log has {set(log.tables)}"
        topic = f"{self.play.prefix}clicks.dead-letter"
        if topic in self.play.topics.names():
            letters = {(topic, 0): list[Any](self.play.read("clicks.dead-letter"))}
            faults = list(dead_letters(letters, topic))
            if len(letters[topic, 0]) != self.feed.malformed:
                faults.append(
                    f"{self.feed.malformed} messages are malformed, and {len(letters[topic, 0])} have letters"
                )
            if faults:
                raise Violated(faults)

    def _refresh(self) -> None:
        """Rebuilt from what the topics have. Its steps begin again, so only what there is at the end is judged."""
        self.count("full refresh")
        self.feed.correct()
        with self.feed.resting():
            self._end_service()
            self._start("--full-refresh", "--available-now")
            assert self.process is not None
            if self.chance.random() < 0.5:
                time.sleep(8 * self.chance.random())  # a random moment, not a guess of one
                self._kill([self._pid()])
                # Before its record there is no refresh yet, and after it any run finishes it.
                self._start("--full-refresh", "--available-now")
            code = self.process.wait(120)
            assert code == 0, f"the refresh has ended with {code}: {self._said()}"
            now = replace(self.judge.now, since=0, marks={})
            there = self.play.read_all(self._topics(now.resolved))
            self.judge.judge_rebuilt(now, {topic: [m.as_input for m in those] for topic, those in there.items()})

    def _end(self) -> None:
        if self.lives:
            self._end_service()

    # What is told of a round

    def count(self, what: str) -> None:
        self.counts[what] += 1

    def tell(self, what: str) -> None:
        """At once, so that a round that does not end tells how far it has come (`pytest -s`)."""
        print(f"{time.monotonic() - self.began:6.1f} s  {what}", flush=True)
