"""One case, judged: every view after every compared step is Spark's batch answer; the messages of an output make the view; the bytes do not
depend on workers, moves, restarts and crashes.

A view that Stepwell refuses by name is left out and counted. If Spark raises for a view, the step must stop with an error of the data that names
it; then the case goes on without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from engine.analysis.withholding import views_behind
from engine.errors import DataError
from engine.model.circuit import Circuit
from engine.model.circuit import View as ViewNode
from stepwell.errors import OwnMistake, ProjectError, UnsupportedError
from stepwell.lowering.driver import lower_with_errors
from stepwell.planning.pipeline import source_table
from stepwell.planning.plans import ResolvedProject
from stepwell.project.definitions import quiet_spark
from tests.end_to_end.oracle_rows import Content, Watched
from tests.end_to_end.oracle_topics import Message
from tests.fuzz import definitions, python_functions
from tests.fuzz.answers import Answers, Batch, Raised, raised
from tests.fuzz.cases import Case, View, without_transients, without_views
from tests.fuzz.compare import difference, one_of_each
from tests.fuzz.counting import CountingMachine
from tests.fuzz.machine import Machine, Story
from tests.fuzz.seeds import case_of
from tests.fuzz.terms import frame, tables_of
from tests.stepwell.expressions.edges import DDL
from tests.stepwell.lowering.projects import Workbench, output

SUM_OVERFLOWS = ("ARITHMETIC_OVERFLOW", "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION")
"""Spark raises them also for a sum whose parts are too large in the order in which it adds them. Ours is exact, whatever the order."""


SPARKS_MISTAKES = ("java.util.NoSuchElementException", "java.lang.ClassCastException")
"""What its analyser or optimiser throws without meaning to: then Spark has no answer."""


class Wrong(AssertionError):
    """A defect. `kind` says of which sort. A smaller case counts as the same defect only if it is of that sort."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class Invalid(Exception):
    """Spark does not analyse the case. A mistake of the fuzzer, or of the reducer, which tries things."""


class _RaisesAtOnce(Exception):
    """Spark's optimiser evaluates a constant of this view, and raises."""


@dataclass
class Tally:
    """What was judged."""

    cases: int = 0
    views: int = 0
    steps: int = 0
    answers: int = 0
    rows: int = 0
    raised: int = 0
    counted: int = 0
    invalid: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    constructs: Counter[str] = field(default_factory=Counter)
    expressions: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        return (
            f"{self.cases} projects, {self.views} views, {self.steps} steps, {self.answers} answers of {self.rows} rows compared; "
            f"{self.raised} views raise, {self.counted} times one was in error, "
            f"{sum(self.refused.values())} are refused, {self.invalid} projects are no projects of Spark's"
        )


@dataclass(frozen=True)
class Resolved:
    """A case's project. `types`: the columns of each view, with Spark's names of their types."""

    project: ResolvedProject
    types: Mapping[str, Mapping[str, str]]


class Judge:
    """Has the sessions. `tally` counts over all cases."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark, self.batch, self.tally = spark, Batch(spark), Tally()
        self.edge: DataFrame = self.batch.spark.createDataFrame([], DDL)

    def case(self, seed: int, featured: tuple[str, ...] = ()) -> Case:
        case, used = case_of(seed, self.edge, featured)
        self.tally.expressions |= used
        return case

    def check(self, case: Case) -> None:
        """Raises Wrong, or Invalid."""
        with _of_spark():
            self._check(case)

    def _check(self, case: Case) -> None:
        self.tally.cases += 1
        case, resolved, circuit, first = self.settled(case)
        answers = self.batch.answers(case)
        for view, (step, answer) in raised(answers, case.compared).items():
            if answer.condition in SPARKS_MISTAKES:
                raise Invalid(f"a mistake of Spark's in {view}: {answer.text}")
            if answer.condition not in SUM_OVERFLOWS or not _adds(case):
                raise Wrong("no error", f"{view} after step {step}: Spark raises {answer.condition}, {answer.text}")
        self.tally.constructs.update(view.construct for view in case.views)
        self.tally.views += len(case.views)
        self.tally.steps += len(case.steps)
        self._compare(case, resolved, first, answers)
        for number in range(1, len(case.runs)):
            self._same_bytes(case, first, self._run(case, resolved, circuit, number), number)

    def settled(self, case: Case) -> tuple[Case, Resolved, Circuit, Story]:
        """The case without the views for which Spark raises, and its first run."""
        while True:
            case, resolved, circuit = self.supported(case)
            try:
                return case, resolved, circuit, self._machine(case, resolved, circuit, 0).story()
            except DataError as error:
                self._check_errors(case, resolved, circuit)
                case = self._without_failing(case, error)
            except AssertionError as error:
                raise Wrong("assertion", f"run 0: {error}") from error
            except Exception as error:
                raise Wrong(type(error).__name__, f"run 0: {error}") from error

    def _check_errors(self, case: Case, resolved: Resolved, circuit: Circuit) -> None:
        """A view is in error after a step if Spark raises for it or for a view that it reads, and the others have Spark's answers."""
        answers, stories = self.batch.answers(case), []
        bad = raised(answers, case.compared)
        if any(answer.condition in {*SPARKS_MISTAKES, *SUM_OVERFLOWS} for _, answer in bad.values()):
            return
        for run in (case.runs[0], case.runs[-1]):
            tables = {source.handle: source_table(source) for source in resolved.project.sources}
            machine = CountingMachine(case, run, circuit, tables)
            try:
                stories.append((machine, machine.story()))
            except DataError:
                return  # an error of a kind that ends the step
            except Exception as error:
                raise Wrong(type(error).__name__, f"with error rows: {error!r}") from error
        places = {node.name: index for index, node in enumerate(circuit.nodes) if isinstance(node, ViewNode)}
        for step in case.compared:
            fails = [v.name for v in case.views if isinstance(answers.get((step, v.name)), Raised)]
            expected = views_behind(circuit, [places[name] for name in fails])
            # Spark may evaluate a view that is read though our plan needs no row of it.
            prunes = {v.name for v in case.views if v.name in fails and tables_of(v.query) & expected}
            for machine, _ in stories:
                found = machine.in_error[step]
                if not expected - prunes <= found <= expected:
                    raise Wrong(
                        "error rows", f"after step {step} {sorted(found)} are in error, and Spark raises in {fails}"
                    )
            self.tally.counted += len(stories[0][0].in_error[step])
        (machine, story), (_, other) = stories
        self._compare(case, resolved, story, answers, machine)
        for step, (one, two) in enumerate(zip(story.messages, other.messages, strict=True)):
            if one != two:
                raise Wrong("bytes", f"with error rows: step {step} differs with other workers")

    def _without_failing(self, case: Case, error: DataError) -> Case:
        """Spark must raise after the same step, for the view that the error names."""
        assert error.step is not None, f"the error names no step: {error}"
        answers = self.batch.answers(replace(case, compared=(error.step,)))
        bad = raised(answers, (error.step,))
        named = next((view.name for view in case.views if error.owner == f"view {view.name}"), None)
        if named in bad:
            self.tally.raised += len(bad)
            return without_views(case, set(bad))
        # A row that a step both adds and takes away is evaluated all the same: then it is left out.
        plainer = without_transients(case)
        if plainer != case and not bad:
            return plainer
        raise Wrong("raises", f"Spark raises in {sorted(bad)}, and Stepwell says: {error}") from error

    def kinds(self, case: Case) -> set[type]:
        """The kinds of nodes in the circuit of what is not refused. Raises Invalid."""
        with _of_spark():
            return {type(node) for node in self.supported(case)[2].nodes}

    def runnable(self, case: Case) -> Case:
        """The case without the views that are refused, and without those for which Spark raises."""
        with quiet_spark():
            case, _, _ = self.supported(case)
            return without_views(case, set(raised(self.batch.answers(case), case.compared)))

    # The project

    def supported(self, case: Case) -> tuple[Case, Resolved, Circuit]:
        """The case without the views that are refused, and without those for which Spark raises when it folds a constant. An append output that
        is refused becomes a changelog."""
        while True:
            try:
                resolved = self._resolve(case)
            except _RaisesAtOnce as error:
                self.tally.raised += 1
                case = without_views(case, {str(error)})
                continue
            except UnsupportedError as error:  # while Spark plans the view
                case = self._without_refused(case, [error])
                continue
            lowered = lower_with_errors(resolved.project)
            if not lowered.errors:
                return case, resolved, lowered.circuit
            case = self._without_refused(case, lowered.errors)

    def _without_refused(self, case: Case, errors: Sequence[ProjectError]) -> Case:
        refused: set[str] = set()
        for error in errors:
            case = self._refusal(case, error, refused)
        return without_views(case, refused)

    def _refusal(self, case: Case, error: ProjectError, refused: set[str]) -> Case:
        if isinstance(error, OwnMistake) or not isinstance(error, UnsupportedError) or error.view is None:
            raise Wrong("mistake", str(error)) from error
        if "an append output cannot take rows back" in error.message:
            views = tuple(replace(v, mode="changelog") if v.name == error.view else v for v in case.views)
            return replace(case, views=views)
        self.tally.refused[error.message] += 1
        refused.add(error.view)
        return case

    def _resolve(self, case: Case) -> Resolved:
        bench = Workbench(self.spark)
        python_functions.register(bench.spark)
        bench.spark.conf.set("spark.sql.shuffle.partitions", "1")
        types: dict[str, Mapping[str, str]] = {}
        for source in case.sources:
            definitions.show_source(bench, source)
        for view in case.views:
            if view.temporary:
                definitions.frame_of(view.query, view, bench.spark).createOrReplaceTempView(view.name)
                continue
            made = None if view.mode is None else output(view.name, view.mode, view.key)
            try:
                bench.view(view.name, *definitions.flows(view), output=made)
            except AnalysisException:
                raise
            except (PySparkException, Py4JJavaError) as error:
                if isinstance(error, Py4JJavaError) and is_of_catalyst(error):
                    raise
                raise _RaisesAtOnce(view.name) from error
            schema = bench.views[-1].schema
            types[view.name] = {f.name: f.dataType.simpleString() for f in schema.fields}
        return Resolved(bench.project(), types)

    # The steps

    def _run(self, case: Case, resolved: Resolved, circuit: Circuit, number: int) -> Story:
        try:
            return self._machine(case, resolved, circuit, number).story()
        except DataError as error:
            raise Wrong("raises", f"Spark has an answer, and run {number} says: {error}") from error
        except AssertionError as error:
            raise Wrong("assertion", f"run {number}: {error}") from error
        except Exception as error:
            raise Wrong(type(error).__name__, f"run {number}: {error}") from error

    def _machine(self, case: Case, resolved: Resolved, circuit: Circuit, number: int) -> Machine:
        tables = {source.handle: source_table(source) for source in resolved.project.sources}
        return Machine(case, case.runs[number], circuit, tables)

    # The comparison

    def _compare(
        self, case: Case, resolved: Resolved, story: Story, answers: Answers, errors: CountingMachine | None = None
    ) -> None:
        """`errors`: which views are in error, and which outputs are withheld."""
        folds = {v.name: Content(Watched(v.name, v.name, v.mode)) for v in case.views if v.mode is not None}
        for step, written in enumerate(story.messages):
            for name, content in folds.items():
                for fault in content.take(step, list(messages_in(written, name))):
                    if not is_of_milliseconds(fault, resolved.types[name]):
                        raise Wrong("messages", fault)
            if step not in case.compared:
                continue
            for view in case.views:
                if view.temporary:
                    continue
                sparks = answers[step, view.name]
                if isinstance(sparks, Raised) or (errors is not None and view.name in errors.in_error[step]):
                    continue
                if errors is None:  # else the views without an error are compared once more
                    self.tally.answers += 1
                    self.tally.rows += len(sparks)
                types = resolved.types[view.name]
                if view.name in folds and (errors is None or view.name not in errors.withheld[step].withheld):
                    expect_equal(view, step, "the messages make", list(folds[view.name].rows()), sparks, types=types)
                if view.name in story.contents[step]:
                    expect_equal(view, step, "a query reads", story.contents[step][view.name], sparks, types=types)

    def _same_bytes(self, case: Case, first: Story, other: Story, number: int) -> None:
        for step, (one, two) in enumerate(zip(first.messages, other.messages, strict=True)):
            for name in one:
                if one[name] != two[name]:
                    text = f"{name} in step {step}: run 0 wrote {_shown(one[name])}, run {number} {_shown(two[name])}"
                    raise Wrong("bytes", text)
        for step in case.compared:
            for name, rows in first.contents[step].items():
                if sorted(rows) != sorted(other.contents[step][name]):
                    raise Wrong("content", f"{name} after step {step}: {rows} and {other.contents[step][name]}")


@contextmanager
def _of_spark() -> Iterator[None]:
    """What Spark does not analyse becomes Invalid."""
    with quiet_spark():
        try:
            yield
        except PySparkException as error:
            raise Invalid(str(error)) from error
        except Py4JJavaError as error:
            if is_of_catalyst(error):
                raise Invalid(f"a mistake of Spark's optimiser: {error.java_exception}") from error
            raise


def is_of_catalyst(error: Py4JJavaError) -> bool:
    """Whether Spark's analyser or optimiser makes a mistake."""
    java = error.java_exception
    of_catalyst = any("spark.sql.catalyst." in str(at) for at in java.getStackTrace())
    return of_catalyst and any(kind in str(java) for kind in SPARKS_MISTAKES)


def is_of_milliseconds(fault: str, types: Mapping[str, str]) -> bool:
    """Whether rows that differ by microseconds explain it, for messages have milliseconds."""
    return ("nothing changes" in fault or "both added and taken away" in fault) and any(
        "timestamp" in t for t in types.values()
    )


def _adds(case: Case) -> bool:
    """Whether a view has a sum."""
    return any("sum(" in text or "avg(" in text for text in map(text_of, case.views))


def text_of(view: View) -> str:
    return frame(view.query) if view.as_frame else view.query.sql


def messages_in(written: Mapping[str, object], name: str) -> Iterator[tuple[int, Message]]:
    table = written.get(name)
    if table is None:
        return
    columns = (table.column(c).to_pylist() for c in ("partition", "key", "value"))  # type: ignore[attr-defined]
    for offset, (partition, key, value) in enumerate(zip(*columns, strict=True)):
        yield partition, Message(offset, key, value, ())


def expect_equal(
    view: View, step: int, who: str, ours: list[bytes], sparks: list[str], *, types: Mapping[str, str]
) -> None:
    if view.any_of is not None:
        extra, missing = one_of_each(ours, sparks, types, view.any_of)
    else:
        extra, missing = difference(ours, sparks, types, dict(view.loose))
    if extra or missing:
        raise Wrong(
            "rows",
            f"{view.name} after step {step}: {who} {len(ours)} rows, Spark has {len(sparks)}\n  too many: {extra[:5]}\n  missing: {missing[:5]}",
        )


def _shown(table: object) -> str:
    return str(table.to_pylist()[:6])  # type: ignore[attr-defined]
