"""BatchEvalPython and ArrowEvalPython: Spark takes the user's functions in Python out of expressions, into nodes of their own.

Such a node gives each row of its child, and the results of its functions beside it. A function whose only argument is the result of another one
is called with what that one returned, without a conversion between the two, as Spark does it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from base.text.variants import has_variants
from engine.model.python_call import PythonCall, PythonFunction
from engine.model.rows import PythonMap
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import arrow_type
from stepwell.lowering.context import Lowering
from stepwell.lowering.errors import UnsupportedPlan
from stepwell.lowering.relation import PlanOutput, Relation, pass_on
from stepwell.lowering.rules.order import hand_on
from stepwell.lowering.trees import attribute, canonical, expression_id, with_typed_nulls
from stepwell.planning.python_functions import PROMISE, SCALAR_FORMS


def lower(context: Lowering, node: TreeNode) -> Relation:
    child, order = hand_on(context, context.lower(node.children[0]))
    udfs: list[TreeNode] = node["udfs"]
    chains = [_chain(udf) for udf in udfs]
    arguments = {canonical(tree): tree for _, trees, _ in chains for tree in trees}
    below, places = context.compute(child, list(arguments.values()))
    column_of = dict(zip(arguments, places, strict=True))
    calls = []
    for udf, (functions, trees, keywords) in zip(udfs, chains, strict=True):
        if udf["evalType"] not in SCALAR_FORMS:
            raise UnsupportedPlan(
                node.kind,
                f"the Python function {udf['name']} of this kind (evalType {udf['evalType']}) is not supported",
                "Write it as a function of one row, with @udf or @pandas_udf",
            )
        calls.append(
            PythonCall(
                functions=functions,
                form=SCALAR_FORMS[udf["evalType"]],
                arguments=tuple(column_of[canonical(tree)] for tree in trees),
                keywords=keywords,
                type=arrow_type(udf["dataType"]),
                settings=udf["settings"],
            )
        )
    refuse_variants(node, calls, context.builder.types(below.node))
    context.note(PROMISE.format(names=", ".join(dict.fromkeys(call.name for call in calls))))
    types = (*context.builder.types(below.node), *(call.type for call in calls))
    made = [(expression_id(result), result["dataType"]) for result in node["resultAttrs"]]
    index = context.builder.add(PythonMap((below.node,), types, tuple(calls)))
    columns = (*below.columns, *(identifier for identifier, _ in made))
    outputs = (*pass_on(below.outputs), *(PlanOutput(id_, attribute(id_, "", type_)) for id_, type_ in made))
    return Relation(index, columns, outputs).with_order(order)


def refuse_variants(node: TreeNode, calls: Sequence[PythonCall], types: Sequence[pa.DataType]) -> None:
    """Raises UnsupportedPlan for a function that is given a VARIANT or makes one. `types`: of the columns of which the arguments are."""
    for call in calls:
        if any(map(has_variants, (call.type, *(types[column] for column in call.arguments)))):
            raise UnsupportedPlan(
                node.kind,
                f"the Python function {call.name} has an argument or a result with a VARIANT, which is not supported",
                "Give it to_json(v) or variant_get(v, path, type), and make a VARIANT of a text with parse_json around the call",
            )


def _chain(udf: TreeNode) -> tuple[tuple[PythonFunction, ...], tuple[TreeNode, ...], tuple[str, ...]]:
    """The functions that are called one after the other, the innermost first; the arguments of that one; and the names of the parameters for
    which the last of these stand. Spark nests two functions in one node only if the inner one is the outer one's single argument."""
    inner = [child for child in udf.children if child.kind == "PythonUDF"]
    if inner:
        assert len(udf.children) == 1, f"{udf['name']} has a function among several arguments"
        functions, arguments, keywords = _chain(inner[0])
        return (*functions, udf["function"]), arguments, keywords
    arguments, keywords = arguments_of(udf)
    return (udf["function"],), arguments, keywords


def arguments_of(udf: TreeNode) -> tuple[tuple[TreeNode, ...], tuple[str, ...]]:
    """The arguments of a call, and the names of the parameters for which the last of them stand."""
    named = [child for child in udf.children if child.kind == "NamedArgumentExpression"]
    positional = udf.children[: len(udf.children) - len(named)]
    arguments = (*map(with_typed_nulls, positional), *(with_typed_nulls(child.children[0]) for child in named))
    return arguments, tuple(str(child["key"]) for child in named)
