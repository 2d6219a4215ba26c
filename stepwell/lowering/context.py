"""Lowering one plan: what every rule works with.

A rule takes a plan node and returns a `Relation`. It calls `lower` for the node's children, `project` and `filter` for
what can wait, `settle` where it needs a circuit node whose columns are exactly the relation's outputs, and `add` for a
circuit node.

Refusals are collected, not thrown to the top: after one, a stand-in takes the node's place, so that one pass finds
everything that is not supported. A circuit is only made if there was none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from engine.model.circuit import Constant, Expression, Map, Node
from stepwell.catalyst.analysed import Analysed
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import YEAR_MONTH, UnsupportedType, arrow_type
from stepwell.lowering.builder import CircuitBuilder
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.expressions import UnsupportedExpression, emit
from stepwell.lowering.expressions.replaced import JAVA_CALLS, functions_written
from stepwell.lowering.relation import Output, Relation
from stepwell.lowering.subqueries import refuse_subqueries
from stepwell.lowering.trees import attribute, attributes, conjunction, conjuncts, expression_id, plain, substitute

Rule = Callable[["Lowering", TreeNode], Relation]
Leaf = Callable[[TreeNode], int]

_NO_RULE_REMEDY = "Write the view without it, or compute this part outside and read the result from a topic"


class Lowering:
    """The state of lowering one plan into `builder`.

    `analysed`: what the user wrote, as opposed to what the optimiser made of it.
    `leaf`: a LogicalRDD or LocalRelation of this plan -> the circuit node that holds its rows.
    `refusals` and `notes` grow as rules find things; a note is for `dry-run` and changes nothing.
    """

    def __init__(
        self, plan: TreeNode, analysed: Analysed, builder: CircuitBuilder, rules: Mapping[str, Rule], leaf: Leaf
    ) -> None:
        self.plan = plan
        self.analysed = analysed
        self.builder = builder
        self.leaf = leaf
        self.refusals: list[UnsupportedPlan] = []
        self.notes: list[str] = []
        self._rules = rules
        self._open: list[TreeNode] = []
        self._fresh = 0

    def lower(self, node: TreeNode) -> Relation:
        """The relation that `node` describes; a stand-in after a refusal."""
        self._open.append(node)
        try:
            with self._refusing(node):
                rule = self._rules.get(node.kind)
                if rule is None:
                    raise UnsupportedPlan(
                        node.kind, f"the plan has a {node.kind}, for which there is no rule", _NO_RULE_REMEDY
                    )
                return rule(self, node)
        finally:
            self._open.pop()
        self._survey(node)
        return self._stand_in()

    def lower_whole(self, plan: TreeNode) -> Relation:
        """The relation of the root of a plan, settled; a stand-in after a refusal."""
        relation = self.lower(plan)
        with self._refusing(plan):
            return self.settle(relation)
        return self._stand_in()

    @contextmanager
    def _refusing(self, node: TreeNode) -> Iterator[None]:
        """Notes what the body refuses, and goes on after it."""
        try:
            yield
        except UnsupportedPlan as refusal:
            self.refuse(refusal)
        except UnsupportedType as error:
            self.refuse(UnsupportedPlan(node.kind, str(error), "Cast the column in the view that reads it"))

    @property
    def above(self) -> Sequence[TreeNode]:
        """The plan nodes above the one whose rule is running, nearest first, as far as their rules have lowered it for themselves. A node that
        was refused is not among them: what is below it is only looked at for more refusals."""
        return self._open[-2::-1]

    def add(self, node: Node, identifiers: Sequence[int]) -> Relation:
        """A circuit node whose columns are known above by `identifiers`."""
        assert len(identifiers) == len(node.types), f"{node.kind}: {len(identifiers)} ids, {len(node.types)} columns"
        return self.over(self.builder.add(node), tuple(identifiers), node)

    def over(self, index: int, identifiers: tuple[int, ...], node: Node | None = None) -> Relation:
        """All columns of circuit node `index`, under these ids."""
        types = (node or self.builder.nodes[index]).types
        outputs = tuple(
            Output(identifier, attribute(identifier, f"c{i}", catalyst_type(type_)))
            for i, (identifier, type_) in enumerate(zip(identifiers, types, strict=True))
        )
        return Relation(index, identifiers, outputs)

    def fresh(self) -> int:
        """An id of our own. Negative: Spark's are not."""
        self._fresh -= 1
        return self._fresh

    def project(self, relation: Relation, outputs: Iterable[Output]) -> Relation:
        """`outputs` read the relation's outputs; nothing that takes work is written twice into the circuit."""
        wanted = tuple(outputs)
        uses = Counter(expression_id(leaf) for output in wanted for leaf in attributes(output.tree))
        if any(uses[output.id] > 1 and not plain(output.tree) for output in relation.outputs):
            relation = self.settle(relation)
        values = {output.id: output.tree for output in relation.outputs}
        renewed = tuple(Output(output.id, substitute(output.tree, values)) for output in wanted)
        return Relation(relation.node, relation.columns, renewed, relation.predicates)

    def filter(self, relation: Relation, condition: TreeNode) -> Relation:
        """Rows for which `condition`, over the relation's outputs, is true."""
        read = {expression_id(leaf) for leaf in attributes(condition)}
        if any(output.id in read and not plain(output.tree) for output in relation.outputs):
            relation = self.settle(relation)
        values = {output.id: output.tree for output in relation.outputs}
        predicates = (*relation.predicates, *conjuncts(substitute(condition, values)))
        return Relation(relation.node, relation.columns, relation.outputs, predicates)

    def settle(self, relation: Relation) -> Relation:
        """The same rows and outputs, with nothing pending: column i of the circuit node is output i, and has its id.

        A projection that only renames costs no node, but it gives the columns new ids. They are taken over here, because a
        caller that puts a node on top knows the columns by the ids of the outputs."""
        if not relation.pending:
            return self.over(relation.node, relation.identifiers)
        condition = conjunction(relation.predicates)
        predicate = None if condition is None else self.emit(condition, relation)
        projections = tuple(self.emit(output.tree, relation) for output in relation.outputs)
        node = Map((relation.node,), tuple(p.type for p in projections), predicate, projections)
        return self.add(node, [output.id for output in relation.outputs])

    def compute(self, relation: Relation, trees: Sequence[TreeNode]) -> tuple[Relation, tuple[int, ...]]:
        """The relation settled with a column for each of `trees`, and their positions; its outputs stay what they were,
        so that columns added here go no further than the node that needs them."""
        kept = relation.outputs
        by_id = {output.id: position for position, output in reversed(list(enumerate(kept)))}
        references = tuple(Output(output.id, attribute(output.id, "", None)) for output in kept)
        extra: list[Output] = []
        positions: list[int] = []
        for tree in trees:
            if tree.kind == "AttributeReference":
                positions.append(by_id[expression_id(tree)])
            else:
                positions.append(len(kept) + len(extra))
                extra.append(Output(self.fresh(), tree))
        settled = self.settle(self.project(relation, (*references, *extra)) if extra else relation)
        return Relation(settled.node, settled.columns, settled.outputs[: len(kept)]), tuple(positions)

    def emit(self, tree: TreeNode, relation: Relation) -> Expression:
        """`tree`, over the columns of the relation's circuit node, as the engine evaluates it."""
        return self.emit_over((relation,), tree)

    def emit_over(self, relations: Sequence[Relation], tree: TreeNode) -> Expression:
        """`tree` over the columns of all the relations' circuit nodes, side by side."""
        columns = [identifier for relation in relations for identifier in relation.columns]
        types = [type_ for relation in relations for type_ in self.builder.types(relation.node)]

        def resolve(identifier: int) -> tuple[int, pa.DataType]:
            position = columns.index(identifier)
            return position, types[position]

        try:
            refuse_subqueries(tree)
            return emit(tree, resolve)
        except UnsupportedPlan as refusal:
            self.refuse(refusal)
        except UnsupportedExpression as error:
            text = f"{self._written(error.kind)} is not supported" + (f": {error.text}" if error.text else "")
            self.refuse(UnsupportedPlan(error.kind, text, error.advice))
        except UnsupportedType as error:
            self.refuse(UnsupportedPlan(tree.kind, str(error), "Cast the column in the view that reads it"))
        return Expression("NULL", pa.null())

    def _written(self, kind: str) -> str:
        """An expression class as users know it. For a call of Java code the optimised plan only has the method's name."""
        written = functions_written(self.analysed.kinds) if kind in JAVA_CALLS else []
        if not written:
            return f"expression {kind}"
        return f"the function {written[0]}" if len(written) == 1 else f"one of the functions {', '.join(written)}"

    def type_of(self, tree: TreeNode, relation: Relation) -> pa.DataType:
        """The type of `tree`, which reads the columns of the relation's circuit node."""
        return self.emit(tree, relation).type

    def refuse(self, refusal: UnsupportedPlan) -> None:
        if all((refusal.text, refusal.remedy) != (known.text, known.remedy) for known in self.refusals):
            self.refusals.append(refusal)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _survey(self, node: TreeNode) -> None:
        """After a refusal of `node`: what else is wrong below it. What was found before is not reported again."""
        for child in node.children:
            self.lower_whole(child)

    def _stand_in(self) -> Relation:
        """Rows of every column that occurs in the plan, so that the nodes above a refused one can be looked at too."""
        known: dict[int, TreeNode] = {}
        for node in self.plan.walk():
            for expression in _expressions(node.fields.values()):
                for leaf in expression.walk():
                    if leaf.kind in ("AttributeReference", "Alias"):
                        known.setdefault(expression_id(leaf), leaf)
        types = [_type_or_null(leaf) for leaf in known.values()]
        return self.add(Constant((), tuple(types), b""), list(known))


def _expressions(values: Iterable[Any]) -> Iterable[TreeNode]:
    for value in values:
        if isinstance(value, TreeNode):
            yield value
        elif isinstance(value, list):
            yield from _expressions(value)


def _type_or_null(leaf: TreeNode) -> pa.DataType:
    try:
        return arrow_type(leaf["dataType"])
    except (UnsupportedType, KeyError):
        return pa.null()


def catalyst_type(type_: pa.DataType) -> Any:
    """The type's name in Catalyst's trees: the inverse of `arrow_type`. Raises UnsupportedType for a type that no column can have."""
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_list(type_):
        return {"type": "array", "elementType": catalyst_type(type_.value_type), "containsNull": True}
    if pa.types.is_struct(type_):
        fields = [
            {"name": field.name, "type": catalyst_type(field.type), "nullable": True, "metadata": {}} for field in type_
        ]
        return {"type": "struct", "fields": fields}
    if type_ not in _CATALYST_NAMES:
        raise UnsupportedType("interval year to month" if type_ == YEAR_MONTH else str(type_))
    return _CATALYST_NAMES[type_]


_CATALYST_NAMES: dict[pa.DataType, str] = {
    arrow_type(name): name
    for name in (
        "boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary", "date", "timestamp",
        "timestamp_ntz", "interval day to second",
    )
} | {pa.null(): "void"}  # fmt: skip
