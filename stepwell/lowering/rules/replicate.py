"""Generate over `replicaterows(n, columns)`: Spark makes it of EXCEPT ALL and INTERSECT ALL. n is the number of rows of each kind that stay.

Spark makes n copies of a row. A Z-set has weights, so the row's weight is multiplied by n instead. No query can call `replicaterows`.
"""

from __future__ import annotations

from engine.model.rows import Replicate
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.context import Lowering
from stepwell.lowering.relation import PlanOutput, Relation
from stepwell.lowering.trees import attribute, expression_id

REPLICATE_ROWS = "ReplicateRows"


def build_replicas(context: Lowering, node: TreeNode) -> Relation:
    generator = node["generator"]
    child = context.lower(node.children[0])
    times, *values = generator.children
    outputs = [
        PlanOutput(expression_id(column), value) for column, value in zip(node["generatorOutput"], values, strict=True)
    ]
    made = {output.id for output in outputs}
    left_out = set(node["unrequiredChildIndex"])
    # The other columns of the child: in Spark's plans they are the same ones, and have the same ids.
    for place, output in enumerate(child.outputs):
        if place not in left_out and output.id not in made:
            outputs.append(PlanOutput(output.id, attribute(output.id, "", None)))
    below = context.materialise(context.project(child, (PlanOutput(context.fresh(), times), *outputs)))
    types = context.builder.types(below.node)
    return context.add(Replicate((below.node,), types[1:], 0), [output.id for output in outputs])
