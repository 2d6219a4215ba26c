"""The context of lowering one plan, with which every rule works.

A rule takes a plan node and returns a `Relation`. It calls `lower` for the node's children. It calls `project` and
`filter` for what can stay pending, and `materialise` if it needs a circuit node whose columns are exactly the relation's
outputs. It calls `add` to make a circuit node.

Refusals are collected and do not end the lowering. A stand-in takes the place of a refused node, so that one run finds
everything that is not supported. The circuit may be used only if nothing was refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from engine.model.circuit import Node
from engine.model.clock import COMPARED_TYPES, ClockBound, TemporalFilter
from engine.model.node import Expression
from engine.model.rows import Constant, Map, ScalarMap
from stepwell.catalyst.analysed import Analysed
from stepwell.catalyst.event_time import EventTimes
from stepwell.catalyst.tree import TreeNode, trees_in
from stepwell.catalyst.types import UnsupportedType, arrow_type, catalyst_type
from stepwell.lowering.builder import CircuitBuilder
from stepwell.lowering.clock import ClockComparison, comparison_in
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.expressions import UnsupportedExpression, emit
from stepwell.lowering.expressions.alternatives import ALTERNATIVES
from stepwell.lowering.expressions.java_calls import JAVA_CALLS, functions_written
from stepwell.lowering.lost_columns import refuse_lost_column
from stepwell.lowering.relation import PlanOutput, Relation, pass_on
from stepwell.lowering.subqueries import refuse_subqueries, take_out
from stepwell.lowering.trees import (
    always_true,
    attribute,
    attributes,
    conjunction,
    conjuncts,
    expression_id,
    plain,
    references,
    substitute,
)
from stepwell.lowering.values import PlanValues, filter_note
from stepwell.lowering.void_columns import as_column, with_typed_columns

Rule = Callable[["Lowering", TreeNode], Relation]
Leaf = Callable[[TreeNode], int]

_MAP_AS_KEY = "GROUP BY a MAP is not supported"
_MAP_AS_KEY_REMEDY = "Use its entries as sorted texts: array_sort(transform(map_keys(m), k -> concat_ws('=', k, m[k])))"
_NO_RULE_REMEDY = "Write the view without it, or compute this part outside and read the result from a topic"


class Lowering:
    """The state of lowering one plan into `builder`. `plan` is the given one without the subqueries that stand for a value; references to
    columns whose ids are in `values` stand in their place.

    `analysed` says what the user wrote, as opposed to what the optimiser made of it.
    `leaf` maps a LogicalRDD or LocalRelation of this plan to the circuit node that holds its rows.
    `observed` and `latest`: by the identity of a withWatermark's node, its rows and its LatestTime node (rules/event_time.py).
    `unread_orders`: by the identity of a Sort, the kind of the node above it that has to read its order and has not done so yet.
    Rules append to `refusals` and `notes`. `dry-run` shows the notes, which have no other effect.
    """

    def __init__(
        self,
        plan: TreeNode,
        analysed: Analysed,
        builder: CircuitBuilder,
        rules: Mapping[str, Rule],
        leaf: Leaf,
        *,
        event_times: EventTimes | None = None,
    ) -> None:
        extracted = take_out(with_typed_columns(plan))
        self.plan = extracted.plan
        self.values = PlanValues(extracted.values, builder, lambda rows: self.lower_apart(rows).node)
        self.analysed = analysed
        self.event_times = event_times or EventTimes()
        self.observed: dict[int, Relation] = {}
        self.latest: dict[int, int] = {}
        self.builder = builder
        self.leaf = leaf
        self.refusals: list[UnsupportedPlan] = []
        self.notes: list[str] = []
        self.unread_orders: dict[int, str] = {}
        self._rules = rules
        self._ancestors: list[
            TreeNode
        ] = []  # the nodes whose rules are running, outermost first, and those that were entered
        self._fresh = 0

    def lower(self, node: TreeNode) -> Relation:
        """The relation of `node`, or a stand-in if it was refused."""
        self._ancestors.append(node)
        try:
            with self._refusing(node):
                rule = self._rules.get(node.kind)
                if rule is None:
                    raise UnsupportedPlan(
                        node.kind, f"the plan has a {node.kind}, for which there is no rule", _NO_RULE_REMEDY
                    )
                return rule(self, node)
        finally:
            self._ancestors.pop()
        self._survey(node)
        return self._stand_in()

    def lower_whole(self, plan: TreeNode) -> Relation:
        """The materialised relation of the root of a plan, or a stand-in if it was refused. Raises AssertionError at the end of the whole plan
        if a rule has not read the order of rows on which its answer depends."""
        relation = self.lower(plan)
        if plan is self.plan and self.unread_orders and not self.refusals:
            raise AssertionError(
                f"the rule of {next(iter(self.unread_orders.values()))} leaves out the order of the Sort below it: read it by rules/order.py"
            )
        with self._refusing(plan):
            return self.materialise(relation)
        return self._stand_in()

    def lower_apart(self, plan: TreeNode) -> Relation:
        """Lowers like `lower_whole`, for a plan with which an order or a LIMIT above it has nothing to do."""
        above, self._ancestors = self._ancestors, []
        try:
            return self.lower_whole(plan)
        finally:
            self._ancestors = above

    @contextmanager
    def _refusing(self, node: TreeNode) -> Iterator[None]:
        """Records a refusal that the body raises, and does not raise it further."""
        try:
            yield
        except UnsupportedPlan as refusal:
            self.refuse(refusal)
        except UnsupportedType as error:
            self.refuse(UnsupportedPlan(node.kind, str(error), error.remedy.capitalize()))

    @property
    def above(self) -> Sequence[TreeNode]:
        """The plan nodes above the one whose rule is running, nearest first. A node is missing if the rule above it lowered its child
        directly and did not `enter` it. A refused node is missing too, because the nodes below it are lowered only to find more refusals."""
        return self._ancestors[-2::-1]

    @contextmanager
    def enter(self, node: TreeNode) -> Iterator[None]:
        """For a rule that lowers what is below `node` without lowering `node`: `above` has the node meanwhile."""
        self._ancestors.append(node)
        try:
            yield
        finally:
            self._ancestors.pop()

    def add(self, node: Node, identifiers: Sequence[int]) -> Relation:
        """Adds a circuit node. The nodes above refer to its columns by `identifiers`."""
        assert len(identifiers) == len(node.types), f"{node.kind}: {len(identifiers)} ids, {len(node.types)} columns"
        return self.relation_over(self.builder.add(node), tuple(identifiers), node)

    def relation_over(self, index: int, identifiers: tuple[int, ...], node: Node | None = None) -> Relation:
        """The relation of all columns of circuit node `index`, with these ids."""
        types = (node or self.builder.nodes[index]).types
        outputs = tuple(
            PlanOutput(identifier, attribute(identifier, f"c{i}", catalyst_type(type_)))
            for i, (identifier, type_) in enumerate(zip(identifiers, types, strict=True))
        )
        return Relation(index, identifiers, outputs)

    def fresh(self) -> int:
        """A new id. It is negative, because Spark's ids are not."""
        self._fresh -= 1
        return self._fresh

    def project(self, relation: Relation, outputs: Iterable[PlanOutput]) -> Relation:
        """Projects the relation to `outputs`, which read its outputs. No expression that costs time is put into the circuit twice."""
        wanted = tuple(outputs)
        order = None if relation.order is None else relation.order.project(wanted)
        kept = 0 if relation.order is None else len(relation.order.hidden)
        dropped = () if order is None else order.hidden[kept:]
        uses = Counter(expression_id(leaf) for output in (*wanted, *dropped) for leaf in attributes(output.tree))
        if any(uses[output.id] > 1 and not plain(output.tree) for output in relation.outputs):
            relation = self.materialise_in_order(relation)
        values = {output.id: output.tree for output in relation.outputs}
        renewed = tuple(PlanOutput(output.id, substitute(output.tree, values)) for output in wanted)
        if order is not None and relation.order is not None:
            read = (PlanOutput(output.id, substitute(output.tree, values)) for output in dropped)
            order = replace(order, hidden=(*relation.order.hidden, *read))
        return Relation(relation.node, relation.columns, renewed, relation.predicates, order)

    def filter(self, relation: Relation, condition: TreeNode) -> Relation:
        """The rows for which `condition`, which reads the relation's outputs, is true."""
        read = {expression_id(leaf) for leaf in attributes(condition)}
        if any(output.id in read and not plain(output.tree) for output in relation.outputs):
            relation = self.materialise_in_order(relation)
        values = {output.id: output.tree for output in relation.outputs}
        added = (part for part in conjuncts(substitute(condition, values)) if not always_true(part))
        predicates = (*relation.predicates, *added)
        return replace(relation, predicates=predicates)

    def materialise_in_order(self, relation: Relation) -> Relation:
        """Returns what `materialise` returns, with the order. Its hidden outputs become columns behind the others."""
        if relation.order is None:
            return self.materialise(relation)
        return self.materialise(relation.revealed).with_order(relation.order)

    def materialise(self, relation: Relation) -> Relation:
        """Returns the same rows and outputs with nothing pending and without an order: column i of the circuit node is output i, and has its id.

        A projection that only renames columns needs no node, but it gives the columns new ids. The result has these new ids,
        because a caller that adds a node on top refers to the columns by the ids of the outputs."""
        if not relation.pending:
            return self.relation_over(relation.node, relation.identifiers)
        if self.values.nodes_of((*relation.predicates, *(output.tree for output in relation.outputs))):
            return self._materialise_with_values(relation)
        condition = conjunction(relation.predicates)
        predicate = None if condition is None else self.emit(condition, relation)
        projections = tuple(as_column(self.emit(output.tree, relation)) for output in relation.outputs)
        node = Map((relation.node,), tuple(p.type for p in projections), predicate, projections)
        return self.add(node, [output.id for output in relation.outputs])

    def _materialise_with_values(self, relation: Relation) -> Relation:
        """A ScalarMap for what reads values, over a Map for the rest. The Map comes first, because a ScalarMap stores its rows and computes
        them again when a value changes. But what can fail stays behind the predicates that may remove the row. Predicates that compare the row
        with the clock are a TemporalFilter between the two, if they can be."""
        first = tuple(tree for tree in relation.predicates if self.values.is_early(tree, relation))
        late = tuple(tree for tree in relation.predicates if not self.values.is_early(tree, relation))
        bounds = {id(tree): found for tree in late if (found := self._as_bound(tree, relation)) is not None}
        late = tuple(tree for tree in late if id(tree) not in bounds)
        ready = {output.id: output for output in relation.outputs if self.values.is_early(output.tree, relation)}
        needed = {id_ for tree in late for id_ in references(tree)}
        needed |= {id_ for output in relation.outputs if output.id not in ready for id_ in references(output.tree)}
        columns = [column for column in dict.fromkeys(relation.columns) if column in needed]
        below: dict[int, PlanOutput] = {column: PlanOutput(column, attribute(column, "", None)) for column in columns}
        renamed: dict[int, int] = {}
        for output in ready.values():
            is_kept = output.tree.kind == "AttributeReference" and expression_id(output.tree) in below
            renamed[output.id] = expression_id(output.tree) if is_kept else self.fresh()
            below.setdefault(renamed[output.id], PlanOutput(renamed[output.id], output.tree))
        rows = Relation(relation.node, relation.columns, tuple(below.values()), first)
        rows = self._filtered_by_clock(rows, tuple(bounds.values())) if bounds else self.materialise(rows)
        rows = Relation(rows.node, tuple(below), rows.outputs)
        trees = [
            attribute(renamed[output.id], "", None) if output.id in renamed else output.tree
            for output in relation.outputs
        ]
        if not self.values.nodes_of((*late, *trees)):
            outputs = tuple(PlanOutput(output.id, tree) for output, tree in zip(relation.outputs, trees, strict=True))
            return self.materialise(Relation(rows.node, rows.columns, outputs, late))
        with self.values.clock_as_read_by((*late, *trees)):
            node = self._scalar_map(rows, conjunction(late), trees)
        return self.add(node, [output.id for output in relation.outputs])

    def _scalar_map(self, rows: Relation, condition: TreeNode | None, trees: Sequence[TreeNode]) -> ScalarMap:
        """The node that computes `trees` for the materialised rows that satisfy the condition, with the values that these read."""
        values = self.values.nodes_of((*([] if condition is None else [condition]), *trees))
        self.note(self.values.note_of(values))
        predicate = None if condition is None else self.emit_over((rows,), condition, values)
        projections = tuple(self.emit_over((rows,), tree, values) for tree in trees)
        types = tuple(projection.type for projection in projections)
        width = len(self.builder.types(rows.node))
        return ScalarMap((rows.node, *values), types, width, predicate, projections)

    def _as_bound(self, tree: TreeNode, relation: Relation) -> ClockComparison | None:
        """The comparison with the clock that a predicate is, if what it is compared with cannot fail and has a type that is ordered as a
        number."""
        found = comparison_in(tree, self.values.clocks)
        if found is None or not self.values.is_early(found.other, relation):
            return None
        return found if self.type_of(found.other, relation) in COMPARED_TYPES else None

    def _filtered_by_clock(self, rows: Relation, bounds: Sequence[ClockComparison]) -> Relation:
        """The outputs of `rows`, materialised, for the rows that satisfy the bounds."""
        width = len(rows.outputs)
        others = tuple(PlanOutput(self.fresh(), bound.other) for bound in bounds)
        compared_rows = self.materialise(replace(rows, outputs=(*rows.outputs, *others)))
        types = self.builder.types(compared_rows.node)[:width]
        made = tuple(ClockBound(bound.path, bound.relation, column) for column, bound in enumerate(bounds, start=width))
        node = TemporalFilter((compared_rows.node, self.values.clock_node()), types, made)
        self.note(filter_note(node))
        return self.add(node, [output.id for output in rows.outputs])

    def compute(self, relation: Relation, trees: Sequence[TreeNode]) -> tuple[Relation, tuple[int, ...]]:
        """The materialised relation with a column for each of `trees`, and the positions of these columns. Its outputs stay
        the same, so that the added columns are visible only to the node that needs them."""
        kept = relation.outputs
        by_id = {output.id: position for position, output in reversed(list(enumerate(kept)))}
        references = tuple(pass_on(kept))
        extra: list[PlanOutput] = []
        positions: list[int] = []
        for tree in trees:
            if tree.kind == "AttributeReference" and expression_id(tree) in by_id:
                positions.append(by_id[expression_id(tree)])
            else:
                positions.append(len(kept) + len(extra))
                extra.append(PlanOutput(self.fresh(), tree))
        materialised = self.materialise(self.project(relation, (*references, *extra)) if extra else relation)
        return Relation(materialised.node, materialised.columns, materialised.outputs[: len(kept)]), tuple(positions)

    def emit(self, tree: TreeNode, relation: Relation) -> Expression:
        """The engine's expression for `tree`, over the columns of the relation's circuit node."""
        return self.emit_over((relation,), tree)

    def emit_over(self, relations: Sequence[Relation], tree: TreeNode, values: Sequence[int] = ()) -> Expression:
        """The engine's expression for `tree`, over the concatenated columns of all the relations' circuit nodes, and then those of `values`,
        which are nodes of `self.values`. An expression that reads another value is refused."""
        columns = [identifier for relation in relations for identifier in relation.columns]
        types = [type_ for relation in relations for type_ in self.builder.types(relation.node)]

        def resolve(identifier: int) -> tuple[int, pa.DataType]:
            if identifier in self.values.ids:
                return self.values.column(identifier, values, len(types))
            if identifier not in columns:
                refuse_lost_column(self._ancestors[0] if self._ancestors else self.plan, identifier)
            position = columns.index(identifier)
            return position, types[position]

        try:
            refuse_subqueries(tree)
            return emit(tree, resolve)
        except UnsupportedPlan as refusal:
            self.refuse(refusal)
        except UnsupportedExpression as error:
            if error.kind == "MapSort":  # Spark puts it around every map that is compared
                self.refuse(UnsupportedPlan(error.kind, _MAP_AS_KEY, _MAP_AS_KEY_REMEDY))
                return Expression("NULL", pa.null())
            text = f"{self._name_for_users(error.kind)} is not supported" + (f": {error.text}" if error.text else "")
            self.refuse(UnsupportedPlan(error.kind, text, self._advice(error)))
        except UnsupportedType as error:
            self.refuse(UnsupportedPlan(tree.kind, str(error), error.remedy.capitalize()))
        return Expression("NULL", pa.null())

    def _name_for_users(self, kind: str) -> str:
        """The name by which users know an expression class."""
        written = self._functions_written(kind)
        if not written:
            return f"expression {kind}"
        return f"the function {written[0]}" if len(written) == 1 else f"one of the functions {', '.join(written)}"

    def _advice(self, error: UnsupportedExpression) -> str:
        written = self._functions_written(error.kind)
        found = ALTERNATIVES.get(written[0] if len(written) == 1 else error.kind)
        return error.advice if found is None else found.advice

    def _functions_written(self, kind: str) -> list[str]:
        """The functions that may stand behind an expression class, if that is a call of Java code, which the optimised plan names only by its
        method."""
        return functions_written(self.analysed.kinds) if kind in JAVA_CALLS else []

    def type_of(self, tree: TreeNode, relation: Relation) -> pa.DataType:
        """The type of `tree`, which reads the columns of the relation's circuit node."""
        return self.emit_over((relation,), tree, self.values.nodes_of([tree])).type

    def type_over_outputs(self, tree: TreeNode, relation: Relation) -> pa.DataType:
        """The type of `tree`, which reads the outputs of the relation."""
        return self.type_of(substitute(tree, {output.id: output.tree for output in relation.outputs}), relation)

    def refuse(self, refusal: UnsupportedPlan) -> None:
        if all((refusal.text, refusal.remedy) != (known.text, known.remedy) for known in self.refusals):
            self.refusals.append(refusal)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _survey(self, node: TreeNode) -> None:
        """After a refusal of `node`: finds what else is refused below it. A refusal that was found before is not reported again."""
        for child in node.children:
            self.lower_whole(child)

    def _stand_in(self) -> Relation:
        """A relation with every column that occurs in the plan, so that the nodes above a refused one can be lowered too."""
        known: dict[int, TreeNode] = {}
        plans = (self.plan, *self.values.plans)
        for node in (node for plan in plans for node in plan.walk()):
            for expression in trees_in(node.fields.values()):
                for leaf in expression.walk():
                    if leaf.kind in ("AttributeReference", "Alias"):
                        known.setdefault(expression_id(leaf), leaf)
        types = [_type_or_null(leaf) for leaf in known.values()]
        return self.add(Constant((), tuple(types), b""), list(known))


def _type_or_null(leaf: TreeNode) -> pa.DataType:
    if leaf.get("dataType") is None:  # an alias, or what stands for the value of a subquery
        return pa.null()
    try:
        return arrow_type(leaf["dataType"])
    except (UnsupportedType, KeyError):
        return pa.null()
