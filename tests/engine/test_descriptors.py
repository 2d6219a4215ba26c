"""An operator does what its descriptor says: every kind of node is run over random changes and compared with its descriptor.

With wrong retractions or exchanges in its descriptor, an operator would give wrong answers without an error.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from typing import Any, get_args
from unittest.mock import patch

import pyarrow as pa
import pytest

from engine.analysis.content import content_below, readable
from engine.analysis.retraction import append_only_inputs, retraction_origins
from engine.analysis.stages import plan_stages
from engine.analysis.uniqueness import unique_keys
from engine.errors import EngineError
from engine.model.circuit import Node, Output, Recursion, View
from engine.model.clock import ClockValue
from engine.model.event_time import ClosingSessions, LatestTime, Watermark
from engine.model.joins import JoinPartials
from engine.model.node import Expression, NodeBase
from engine.model.numbers import TRACES_MAX, number_of
from engine.model.ordered import Sessions
from engine.model.rows import Constant, Distinct, Map, ScalarMap, ScalarValue, Source, Union
from engine.operators.context import StepContext
from engine.operators.descriptor import Growth, Operator, OutputFacts, StateUse, Wording
from engine.operators.distinct import DISTINCT
from engine.operators.facts import DivisionFacts, RunFacts, StepFacts
from engine.operators.keys import hash_keys
from engine.operators.names import Naming
from engine.operators.table import OPERATORS, by_node_type, operator_of
from engine.rows import zset
from engine.run import stage
from engine.state.store import DictStore
from io_kafka.step_log.digest import canonical
from storage.keys import TABLE_FIRST, table_prefix
from tests.engine.contexts import contexts_of
from tests.engine.every_kind import OF_EVENT_TIME, PARTITIONS, Input, every_kind, history, rows_everywhere
from tests.engine.in_process import InProcess
from tests.engine.zsets import Rows, plus, to_rows

CIRCUIT = every_kind()
APPEND_ONLY = append_only_inputs(CIRCUIT)
PLACES = plan_stages(CIRCUIT).input_colocation
SUITE_SEEDS = (2,)
"""In this one, each kind of node does what its descriptor says that it does now and then."""
SEEDS = [seed if seed in SUITE_SEEDS else pytest.param(seed, marks=pytest.mark.soak) for seed in range(12)]
WORKER_SEEDS = (1,)


class Nodes:
    """Runs the circuit node by node on one worker. `changes[n]`: the change of node n in each step. `contents[n]`: the sum of its changes.
    `restarts`: each step begins with what the traces hold and nothing else."""

    def __init__(self, steps: list[dict[str, pa.Table]], *, restarts: bool = True) -> None:
        self.store = DictStore()
        self.restarts = restarts
        self.step = 0
        self.changes: dict[int, list[Rows]] = {index: [] for index in range(len(CIRCUIT.nodes))}
        self.contents: dict[int, Rows] = {index: Counter() for index in range(len(CIRCUIT.nodes))}
        self.tables: list[list[pa.Table]] = []
        for given_ in steps:
            self._run(given_)

    def context(self, index: int) -> StepContext:
        return contexts_of(CIRCUIT, self.store, self.step, partitions=PARTITIONS)(index)

    def _run(self, given_: dict[str, pa.Table]) -> None:
        if self.restarts:
            records, self.store = self.store.records, DictStore()
            self.store.records = dict(records)
        made: list[pa.Table] = []
        for index, node in enumerate(CIRCUIT.nodes):
            step = operator_of(node).step
            if step is None:
                assert isinstance(node, Source)
                made.append(given_[node.handle])
            else:
                made.append(step(node, [made[i] for i in node.inputs], self.context(index)))
            if not isinstance(node, Output):
                self.changes[index].append(to_rows(made[index]))
                self.contents[index] = plus(self.contents[index], self.changes[index][-1])
        self.tables.append(made)
        self.step += 1


@cache
def nodes_after(seed: int) -> Nodes:
    """Several tests share one run."""
    return Nodes(history(seed))


def named(index: int) -> str:
    return f"node {index}: {CIRCUIT.nodes[index]}"


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_a_restart_between_two_steps_changes_nothing(seed: int) -> None:
    """Otherwise an operator keeps something elsewhere than in its traces."""
    alive, restarted = Nodes(history(seed), restarts=False), nodes_after(seed)
    for index in restarted.changes:
        assert alive.changes[index] == restarted.changes[index], named(index)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_operator_retracts_only_if_its_descriptor_says_so(seed: int) -> None:
    ran = nodes_after(seed)
    for index, origin in enumerate(retraction_origins(CIRCUIT)):
        if origin is None:
            assert all(weight > 0 for change in ran.changes[index] for weight in change.values()), named(index)


def test_an_operator_whose_descriptor_says_that_it_retracts_does() -> None:
    """If the descriptor were wrong, operators above would store more than they need, and an append output would be refused."""
    for index, origin in enumerate(retraction_origins(CIRCUIT)):
        if origin == index:
            changes = [change for seed in SUITE_SEEDS for change in nodes_after(seed).changes[index]]
            assert any(weight < 0 for change in changes for weight in change.values()), named(index)


TELLS = (ScalarValue, ClockValue, LatestTime, Watermark)
"""Nodes whose output is no change of a table, so that nothing of it can be taken back."""

GROWING = [
    index
    for index, node in enumerate(CIRCUIT.nodes)
    if node.inputs and all(APPEND_ONLY[index]) and not any(isinstance(CIRCUIT.nodes[i], TELLS) for i in node.inputs)
]


def after_taking_all_back(index: int, seed: int, *, only_grew: bool) -> Any:
    """What a node puts out when all that its inputs ever inserted is taken back, or the class of the error that it
    raises. `only_grew`: until then it could rely on inputs that only grow."""
    node, ran = CIRCUIT.nodes[index], nodes_after(seed)
    step, store = operator_of(node).step, DictStore()
    assert step is not None
    facts = [
        RunFacts(tuple(range(index + 1)), {index: (grows,) * len(node.inputs)}, PARTITIONS, {})
        for grows in (only_grew, False)
    ]
    given_ = [[made[i] for i in node.inputs] for made in ran.tables]
    back = [zset.negate(zset.add([tables[place] for tables in given_])) for place in range(len(node.inputs))]
    out = None
    for number, tables in enumerate([*given_, back]):
        run = facts[number == len(given_)]
        try:
            out = step(
                node,
                tables,
                StepContext(run, StepFacts(DivisionFacts(number=number), PLACES, owns_keyless=True), store, index),
            )
        except (AssertionError, EngineError, pa.ArrowInvalid) as error:
            return type(error)
    return to_rows(out) if not isinstance(node, Output) else canonical_rows(out)


def canonical_rows(messages: pa.Table) -> list[str]:
    return sorted(map(repr, messages.to_pylist()))


@pytest.mark.parametrize("seed", SEEDS)
def test_an_operator_that_does_not_rely_on_growth_can_take_rows_back(seed: int) -> None:
    """As behind a view whose definition was changed. With a wrong descriptor, state would be kept that lacks what a retraction needs."""
    for index in GROWING:
        node = CIRCUIT.nodes[index]
        if not operator_of(node).growth.is_relied_on(node):
            kept, fresh = (after_taking_all_back(index, seed, only_grew=grew) for grew in (True, False))
            assert kept == fresh, named(index)


def test_an_operator_that_relies_on_growth_does() -> None:
    relying = [
        index for index in GROWING if operator_of(CIRCUIT.nodes[index]).growth.is_relied_on(CIRCUIT.nodes[index])
    ]
    differ = {
        CIRCUIT.nodes[index].kind
        for index in relying
        for seed in SUITE_SEEDS
        if after_taking_all_back(index, seed, only_grew=True) != after_taking_all_back(index, seed, only_grew=False)
    }
    assert differ >= {"Aggregate", "Deduplicate", "TopK"}


@pytest.mark.parametrize("seed", SEEDS)
def test_no_two_rows_have_the_unique_key_of_a_descriptor(seed: int) -> None:
    ran = nodes_after(seed)
    for index, key in enumerate(unique_keys(CIRCUIT)):
        if key is not None:
            rows: Counter[tuple[Any, ...]] = Counter()
            for row, weight in ran.contents[index].items():
                rows[tuple(row[column] for column in key)] += weight
            assert all(weight <= 1 for weight in rows.values()), named(index)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_content_that_is_read_from_state_is_the_sum_of_all_changes(seed: int) -> None:
    ran = nodes_after(seed)
    found = {
        index for index, node in enumerate(CIRCUIT.nodes) if not isinstance(node, Output) and readable(CIRCUIT, index)
    }
    assert found, "no operator of this circuit can be read: the test shows nothing"
    for index in found:
        assert to_rows(content_below(CIRCUIT, index, ran.context)) == ran.contents[index], named(index)


def silent_steps(seed: int) -> Counter[int]:
    """For each node, in how many steps its output changed although its state did not. In the last step a row of NULLs comes alone."""
    store, found, before = DictStore(), Counter[int](), records_by_node(DictStore())
    for number, given_ in enumerate([*history(seed), Input(Counter({(None, None): 1}), [], Counter()).tables(1 << 20)]):
        made: list[pa.Table] = []
        context_of = contexts_of(CIRCUIT, store, number, partitions=PARTITIONS)
        for index, node in enumerate(CIRCUIT.nodes):
            step = operator_of(node).step
            if step is None:
                assert isinstance(node, Source)
                made.append(given_[node.handle])
            else:
                made.append(step(node, [made[i] for i in node.inputs], context_of(index)))
        after = records_by_node(store)
        for index, node in enumerate(CIRCUIT.nodes):
            if not isinstance(node, Output) and to_rows(made[index]):
                found[index] += before.get(index) == after.get(index)
        before = after
    return found


def records_by_node(store: DictStore) -> dict[int | None, dict[bytes, bytes]]:
    found: dict[int | None, dict[bytes, bytes]] = {}
    for key, value in store.records.items():
        found.setdefault(number_of(int.from_bytes(key[:2], "big")), {})[key] = value
    return found


def test_an_output_that_is_fed_from_state_changes_only_with_the_state() -> None:
    """Otherwise new nodes that are filled from the state would lack rows that it does not have, as those of an anti join with NULL keys."""
    silent = [silent_steps(seed) for seed in range(2)]
    for index, node in enumerate(CIRCUIT.nodes):
        operator, steps = operator_of(node), sum(each[index] for each in silent)
        if operator.is_fed_from_state(node):
            assert operator.state.keeps(node, all(APPEND_ONLY[index])), named(index)
            reads_value = any(isinstance(CIRCUIT.nodes[i], ScalarValue | ClockValue) for i in node.inputs)
            assert not steps or reads_value, named(index)
    unlike = {
        CIRCUIT.nodes[index].kind
        for index, node in enumerate(CIRCUIT.nodes)
        if operator_of(node).state.keeps(node, all(APPEND_ONLY[index])) and sum(each[index] for each in silent)
    }
    assert unlike >= {"SemiJoin", "TopK"}, "nothing had NULL keys: the test shows nothing"


def test_an_operator_stores_something_if_and_only_if_its_descriptor_says_so() -> None:
    ran = Nodes([rows_everywhere()])
    for index, node in enumerate(CIRCUIT.nodes):
        first = TABLE_FIRST + index * TRACES_MAX
        prefixes = tuple(table_prefix(table) for table in range(first, first + TRACES_MAX))
        stored = any(key.startswith(prefixes) for key in ran.store.records)
        assert bool(operator_of(node).state.keeps(node, all(APPEND_ONLY[index]))) == stored, named(index)


EVERY_STEP = (ScalarValue, ClockValue, Watermark)
"""Their output is no change: it tells in every step what is."""


def test_an_operator_has_output_before_any_input_if_and_only_if_its_descriptor_says_so() -> None:
    for index, node in enumerate(CIRCUIT.nodes):
        operator = operator_of(node)
        if operator.step is None:
            continue
        nothing = [zset.empty(CIRCUIT.nodes[i].types) for i in node.inputs]
        store = DictStore()
        spoken = []
        for step in range(3):
            context = contexts_of(CIRCUIT, store, step, partitions=PARTITIONS)(index)
            spoken.append(operator.step(node, nothing, context).num_rows > 0)
        later = isinstance(node, EVERY_STEP)
        assert spoken == [operator.output.comes_without_input(node), later, later], named(index)


@dataclass
class OnWorkers:
    """`outputs`: the messages of each step. `rows`: how many rows each node had. `strayed`: nodes with rows of other workers."""

    outputs: list[dict[str, list[dict[str, Any]]]] = field(default_factory=list)
    rows: Counter[int] = field(default_factory=Counter)
    strayed: dict[int, str] = field(default_factory=dict)


@cache
def on_workers(workers: int, seed: int) -> OnWorkers:
    """Two tests share one run."""
    machine, seen = InProcess(CIRCUIT, workers, PARTITIONS), OnWorkers()
    places, real = machine.plan.colocation, stage._run_node

    def made(task: stage.WorkerStep, index: int, *given_: Any) -> pa.Table:
        table = real(task, index, *given_)
        key = None if isinstance(CIRCUIT.nodes[index], Output) else places[index]
        if key is not None and table.num_rows:
            if set(machine.placement.worker_of(hash_keys(table, key))) != {task.worker}:
                seen.strayed[index] = f"{named(index)} has rows of other workers: it says that they lie by {key}"
            seen.rows[index] += table.num_rows
        return table

    with patch.object(stage, "_run_node", made):
        for given_ in history(seed):
            seen.outputs.append({h: canonical(t).to_pylist() for h, t in machine.step(given_).items()})
    return seen


@pytest.mark.parametrize(
    "seed", [seed if seed in WORKER_SEEDS else pytest.param(seed, marks=pytest.mark.soak) for seed in range(6)]
)
def test_every_operator_gets_the_rows_it_needs_on_any_number_of_workers(seed: int) -> None:
    """With a wrong exchange, or a wrong placement of an output, the rows of a key would be on two workers."""
    for workers in (2, 5):
        assert on_workers(workers, seed).outputs == on_workers(1, seed).outputs


@pytest.mark.parametrize("workers", [2, 5])
def test_the_rows_of_an_operator_lie_where_its_descriptor_says(workers: int) -> None:
    """Operators above rely on it and exchange nothing, so with a wrong placement the rows of a key would be on two workers."""
    runs = [on_workers(workers, seed) for seed in WORKER_SEEDS]
    assert not [text for run in runs for text in run.strayed.values()]
    places = plan_stages(CIRCUIT).colocation
    placed = {i for i, key in enumerate(places) if key is not None and not isinstance(CIRCUIT.nodes[i], Output)}
    rows = set().union(*(run.rows for run in runs))
    assert rows == placed, f"nothing was seen of {sorted(placed - rows)}"


def test_every_output_of_the_circuit_has_messages() -> None:
    """Every kind of node is below an output, so the comparison of numbers of workers covers it."""
    messages = InProcess(CIRCUIT, 1, PARTITIONS).step(rows_everywhere())
    assert {handle for handle, table in messages.items() if table.num_rows} == set(PARTITIONS)
    read = set()
    for index in reversed(range(len(CIRCUIT.nodes))):
        if isinstance(CIRCUIT.nodes[index], Output) or index in read:
            read |= {index, *CIRCUIT.nodes[index].inputs}
    assert read == set(range(len(CIRCUIT.nodes)))


def test_sources_views_and_outputs_have_names_for_users_and_every_node_has_a_text() -> None:
    for index, node in enumerate(CIRCUIT.nodes):
        operator = operator_of(node)
        assert "\n" not in operator.wording.text(node)
        name = operator.wording.user_name(node)
        if isinstance(node, View):
            assert name == f"view {node.name}"
        if name is not None:
            assert any(
                name.endswith(f" {word}") for word in (getattr(node, "handle", ""), getattr(node, "name", "")) if word
            ), named(index)


OTHER_VALUES = (Recursion, Sessions, ClosingSessions, JoinPartials)
"""A name may stand for what is computed: the column of a recursion, the time range of a session. The sums of partials have no name."""
WITHOUT_NAMES = (Constant, Output, LatestTime, Watermark)
OWN_NAMES = (Source, View, ClockValue)


def test_a_column_that_keeps_its_name_has_the_values_of_that_column() -> None:
    ran, naming = nodes_after(*SUITE_SEEDS), set[type[NodeBase]](OWN_NAMES)
    for index, node in enumerate(CIRCUIT.nodes):
        if isinstance(node, OWN_NAMES):
            continue
        inputs = [tuple(f"{at} {c}" for c in range(len(CIRCUIT.nodes[i].types))) for at, i in enumerate(node.inputs)]
        names = operator_of(node).wording.columns.of(node, inputs, Naming({}, computed=False))
        assert len(names) == len(node.types), named(index)
        naming |= {type(node)} if any(names) else set()
        for place, name in enumerate(names if not isinstance(node, OTHER_VALUES) else ()):
            if name is not None:
                at, column = map(int, name.split())
                below = node.inputs if isinstance(node, Union) else (node.inputs[at],)  # named after the first
                known = set().union(*(values_of(ran, each, column) for each in below))
                assert values_of(ran, index, place) <= known | {None}, named(index)
    assert {type(node) for node in CIRCUIT.nodes} - naming == set(WITHOUT_NAMES)


def values_of(ran: Nodes, index: int, column: int) -> set[Any]:
    return {row[column] for change in ran.changes[index] for row in change}


def test_names_and_expressions_speak_of_the_same_columns() -> None:
    """An expression of a node is over as many columns as there are names of what it reads."""
    for index, node in enumerate(CIRCUIT.nodes):
        inputs = [tuple(f"{at} {c}" for c in range(len(CIRCUIT.nodes[i].types))) for at, i in enumerate(node.inputs)]
        read = operator_of(node).wording.columns.read(inputs)
        for expression in expressions_of(node):
            if expression.column is not None:
                at, column = map(int, (read[expression.column] or "").split())
                assert CIRCUIT.nodes[node.inputs[at]].types[column] == expression.type, named(index)


def test_errors_of_a_recursion_do_not_name_the_columns_of_its_inputs() -> None:
    """Its expressions are over the columns of nodes in its body."""
    recursion = next(node for node in CIRCUIT.nodes if isinstance(node, Recursion))
    assert not operator_of(recursion).wording.columns.read([("a", "b"), ("c", "d")])


def expressions_of(node: Node) -> list[Expression]:
    return [*node.projections] if isinstance(node, Map | ScalarMap) else []


def test_every_kind_of_node_has_exactly_one_descriptor() -> None:
    assert [operator.node for operator in OPERATORS] == list(get_args(Node))


@pytest.mark.parametrize("kind", [Operator, OutputFacts, Growth, StateUse, Wording])
def test_no_field_of_a_descriptor_has_a_default(kind: Any) -> None:
    """A new operator says everything. What it left out could be wrong, and no error would tell."""
    assert all(part.default is MISSING and part.default_factory is MISSING for part in fields(kind))


def test_an_incomplete_table_of_operators_is_refused() -> None:
    kinds = get_args(Node)
    with pytest.raises(TypeError, match="Distinct has no descriptor"):
        by_node_type([operator for operator in OPERATORS if operator is not DISTINCT], kinds)
    with pytest.raises(TypeError, match="Distinct has two descriptors"):
        by_node_type([*OPERATORS, replace(DISTINCT)], kinds)
    with pytest.raises(TypeError, match="Distinct has a descriptor, but is not in the union Node"):
        by_node_type(OPERATORS, [kind for kind in kinds if kind is not Distinct])


def test_an_operator_of_a_recursion_uses_as_many_traces_as_its_descriptor_says() -> None:
    """With too few, two nodes of a body would write into one trace."""
    used: dict[str, int] = {}
    for store in (nodes_after(seed).store for seed in SUITE_SEEDS):
        for index, node in enumerate(CIRCUIT.nodes):
            tables = range(TABLE_FIRST + index * TRACES_MAX, TABLE_FIRST + (index + 1) * TRACES_MAX)
            some = [
                i for i, table in enumerate(tables) if any(k.startswith(table_prefix(table)) for k in store.records)
            ]
            used[node.kind] = max(used.get(node.kind, 0), *(slot + 1 for slot in some), 0)
    for operator in OPERATORS:
        if operator.state.traces_in_recursion is not None:
            assert used[operator.node.__name__] <= operator.state.traces_in_recursion, operator.node.__name__


def test_an_operator_that_needs_inputs_that_only_insert_reads_event_time() -> None:
    needing = {operator.node for operator in OPERATORS if operator.growth.is_needed}
    assert needing == OF_EVENT_TIME - {Watermark}
