"""Makes a failing case smaller while it fails in the same way, and writes it down.

Our own reducer, and not Hypothesis's: it works on the project's own parts (views, clauses, steps, messages, columns, workers), of which each
smaller case is a project again. Hypothesis would take parts out of the random choices, which changes all that was drawn after them, and a trial
costs up to a second here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.fuzz.cases import Case, Event, Message, Run, Source, View, contents, without_views
from tests.fuzz.judge import Wrong, text_of
from tests.fuzz.terms import smaller, tables_of

SECONDS_MAX = 120.0
"""Of trials for one case."""

Check = Callable[[Case], None]


def reduced(case: Case, wrong: Wrong, check: Check, seconds: float = SECONDS_MAX) -> tuple[Case, Wrong]:
    """The smallest case that was found, and how it fails."""
    deadline = time.monotonic() + seconds
    tried = {repr(case)}  # a case that is no smaller must not come again
    while True:
        for other in smaller_cases(case):
            if time.monotonic() > deadline:
                return case, wrong
            if repr(other) in tried:
                continue
            tried.add(repr(other))
            found = _fails(other, check)
            if found is not None and found.kind == wrong.kind:
                case, wrong = other, found
                break
        else:
            return case, wrong


def _fails(case: Case, check: Check) -> Wrong | None:
    """What is tried may be no project at all, so any other exception only says that it is none."""
    try:
        check(case)
    except Wrong as wrong:
        return wrong
    except Exception:
        return None
    return None


def smaller_cases(case: Case) -> Iterator[Case]:
    """The largest parts first."""
    for view in reversed(case.views):
        if len(case.views) > 1:
            yield without_views(case, {view.name})
    yield from _fewer_steps(case)
    yield from _quieter(case)
    read = {name for view in case.views for name in tables_of(view.query)}
    for source in case.sources:
        if source.name not in read and len(case.sources) > 1:
            yield _without_source(case, source)
    yield from _fewer_messages(case)
    for number, view in enumerate(case.views):
        for query in smaller(view.query):
            yield replace(case, views=(*case.views[:number], replace(view, query=query), *case.views[number + 1 :]))
        for plainer in _plainer_views(view):
            yield replace(case, views=(*case.views[:number], plainer, *case.views[number + 1 :]))
    for source in case.sources:
        yield from _simpler_source(case, source)


def _plainer_views(view: View) -> Iterator[View]:
    if view.temporary:
        yield replace(view, temporary=False)
    if view.as_frame:
        yield replace(view, as_frame=False)
    if view.partitions > 1:
        yield replace(view, partitions=1)
    if view.mode is not None:
        yield replace(view, mode=None, key=())
        if view.mode != "changelog" or view.key:
            yield replace(view, mode="changelog", key=())


def _fewer_steps(case: Case) -> Iterator[Case]:
    for number in reversed(range(len(case.steps))):
        if len(case.steps) > 1:
            yield _possible(_without_step(case, number, merge=False))
            if number:
                yield _possible(_without_step(case, number, merge=True))
    if len(case.compared) > 1:
        for step in case.compared:
            yield replace(case, compared=tuple(c for c in case.compared if c != step))


def _without_step(case: Case, number: int, merge: bool) -> Case:
    steps = list(case.steps)
    if merge:
        steps[number - 1] += steps[number]
    del steps[number]
    runs = tuple(
        replace(
            r,
            workers=r.workers[:number] + r.workers[number + 1 :],
            events=("", *(r.events[:number] + r.events[number + 1 :])[1:]),
        )
        for r in case.runs
    )
    compared = tuple(sorted({*(c - (c >= number) for c in case.compared if c != number), len(steps) - 1}))
    return replace(case, steps=tuple(steps), runs=runs, compared=tuple(c for c in compared if c >= 0))


def _quieter(case: Case) -> Iterator[Case]:
    if len(case.runs) > 1:
        yield replace(case, runs=case.runs[:1])
    for number, run in enumerate(case.runs):
        for other in _quieter_runs(run):
            if other != run:
                yield replace(case, runs=(*case.runs[:number], other, *case.runs[number + 1 :]))


def _quieter_runs(run: Run) -> Iterator[Run]:
    steps = len(run.workers)
    quiet: tuple[Event, ...] = ("",) * steps
    yield replace(run, events=quiet)
    yield replace(run, workers=(1,) * steps)
    if max(run.workers) > 2:
        yield replace(run, workers=(2,) * steps)
    yield replace(run, bucket_rows=None)
    for at, event in enumerate(run.events):
        if event:
            yield replace(run, events=(*run.events[:at], "", *run.events[at + 1 :]))


def _without_source(case: Case, source: Source) -> Case:
    steps = tuple(tuple(m for m in step if m.source != source.name) for step in case.steps)
    return replace(case, sources=tuple(s for s in case.sources if s != source), steps=steps)


def _fewer_messages(case: Case) -> Iterator[Case]:
    for size in (8, 4, 2, 1):
        for number, step in enumerate(case.steps):
            for at in range(0, len(step), size):
                if len(step) >= size:
                    kept = step[:at] + step[at + size :]
                    yield _possible(replace(case, steps=(*case.steps[:number], kept, *case.steps[number + 1 :])))


def _possible(case: Case) -> Case:
    """The case without retractions of rows that are not there any more."""
    while True:
        bad = _impossible(case)
        if bad is None:
            return case
        step, message = bad
        kept = list(case.steps[step])
        kept.remove(message)
        case = replace(case, steps=(*case.steps[:step], tuple(kept), *case.steps[step + 1 :]))


def _impossible(case: Case) -> tuple[int, Message] | None:
    for source in case.sources:
        if source.mode != "changelog" or source.key:
            continue
        there: dict[str, int] = {}
        for number, step in enumerate(case.steps):
            mine = [m for m in step if m.source == source.name]
            for m in mine:
                if m.after is not None:
                    there[source.text_of(m.after)] = there.get(source.text_of(m.after), 0) + 1
            for m in mine:
                if m.before is not None:
                    text = source.text_of(m.before)
                    there[text] = there.get(text, 0) - 1
                    if there[text] < 0:
                        return number, m
    return None


def _simpler_source(case: Case, source: Source) -> Iterator[Case]:
    if source.partitions > 1:
        moved = tuple(
            tuple(replace(m, partition=0) if m.source == source.name else m for m in step) for step in case.steps
        )
        yield _with_source(replace(case, steps=moved), source, replace(source, partitions=1))
    for at in reversed(range(len(source.columns))):
        if source.columns[at][0] not in source.key and len(source.columns) > 1:
            steps = tuple(
                tuple(_without_cell(m, at) if m.source == source.name else m for m in step) for step in case.steps
            )
            columns = source.columns[:at] + source.columns[at + 1 :]
            yield _with_source(replace(case, steps=steps), source, replace(source, columns=columns))
        if not source.columns[at][2] and source.columns[at][0] not in source.key:
            columns = (*source.columns[:at], (*source.columns[at][:2], True), *source.columns[at + 1 :])
            yield _with_source(case, source, replace(source, columns=columns))


def _without_cell(message: Message, at: int) -> Message:
    def cut(row: tuple[object, ...] | None) -> tuple[object, ...] | None:
        return None if row is None else row[:at] + row[at + 1 :]

    return replace(message, before=cut(message.before), after=cut(message.after))


def _with_source(case: Case, old: Source, new: Source) -> Case:
    return replace(case, sources=tuple(new if s == old else s for s in case.sources))


# As text


def described(case: Case) -> str:
    """The project as files, the messages of every step, and the runs."""
    lines = [f"-- seed {case.seed}"]
    for s in case.sources:
        mode = f", 'mode' = '{s.mode}'" + (f", 'key' = '{', '.join(s.key)}'" if s.key else "")
        if s.read != "table":
            lines.append(f"-- {s.name} is {s.sql if s.read == 'reader' else 'a batch table'}")
        lines.append(
            f"CREATE STREAMING TABLE {s.name} ({s.ddl}) USING kafka TBLPROPERTIES ('subscribe' = '{s.name}'{mode});"
        )
    for v in case.views:
        kind = "TEMPORARY VIEW" if v.temporary else "MATERIALIZED VIEW"
        key = f", 'key' = '{', '.join(v.key)}'" if v.key else ""
        published = "" if v.mode is None else f" TBLPROPERTIES ('topic' = '{v.name}', 'mode' = '{v.mode}'{key})"
        lines.append(f"CREATE {kind} {v.name}{published} AS\n  {text_of(v)};")
    for number, step in enumerate(case.steps):
        compared = ", compared" if number in case.compared else ""
        lines.append(f"-- step {number}{compared}")
        lines += [f"--   {_told(case.source(m.source), m)}" for m in step]
    for source in case.sources:
        last = contents(case)[source.name][-1]
        rows = "; ".join(f"{count} x {text}" for (text, _), count in last.items())
        lines.append(f"-- {source.name} holds in the end: {rows}")
    for number, r in enumerate(case.runs):
        lines.append(
            f"-- run {number}: workers {r.workers}, events {r.events}, {r.bucket_rows} rows in a bucket, seed {r.seed}"
        )
    return "\n".join(lines)


def _told(source: Source, message: Message) -> str:
    key, value = message.key(source), message.value(source)
    told = "null" if value is None else value.decode()
    return f"{source.name}/{message.partition}: " + (told if key is None else f"{key.decode()} -> {told}")
