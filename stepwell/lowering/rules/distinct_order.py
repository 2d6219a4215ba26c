"""Puts Spark's plan of several count(DISTINCT) into an order that depends only on the query.

Spark expands every row into one copy for each set of distinct columns, and numbers the copies (`gid`). The order of the
copies and of their columns, and therefore the numbers, follow the hash of expression ids, which differs from session to
session. This module replaces it by the order in which the query uses the columns and copies, so that the same query
always has the same circuit.

    Aggregate            uses of columns and of `gid = n`, in the order of the query, which decides all others
      Aggregate          grouping columns and calls, in the order of those uses
        Expand           columns in the order of the Aggregate above, copies by their new number

The rewrite is recognised by the column that numbers the copies (`number_column`). The name of that column does not
suffice, because a user may call a column `gid` too, and may group by it over a ROLLUP, which is also an Expand.
"""

from __future__ import annotations

from collections.abc import Iterable

from stepwell.catalyst.analysed import Analysed
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.trees import attributes, expression_id, literal, transform

_GROUP_NUMBER = "gid"


def number_column(node: TreeNode, analysed: Analysed) -> int | None:
    """The id of the column that numbers the copies if the Aggregate `node` is the upper one of Spark's rewrite; otherwise None.

    Spark's optimiser adds that column as an integer literal in each copy, and makes it the last grouping column of the inner
    Aggregate (RewriteDistinctAggregates)."""
    inner = node.children[0]
    if inner.kind != "Aggregate" or inner.children[0].kind != "Expand" or not inner["groupingExpressions"]:
        return None
    expand, last = inner.children[0], inner["groupingExpressions"][-1]
    if last.kind != "AttributeReference" or last["name"] != _GROUP_NUMBER:
        return None
    number = expression_id(last)
    places = [place for place, column in enumerate(expand["output"]) if expression_id(column) == number]
    if len(places) != 1 or not analysed.made_by_spark(number):
        return None
    values = [copy[places[0]] for copy in expand["projections"]]
    written = all(value.kind == "Literal" and value["dataType"] == "integer" for value in values)
    return number if written else None


def in_order_of_use(node: TreeNode, number: int) -> TreeNode:
    """The upper Aggregate of the rewrite, with the two nodes below it in the order of use. `number` is its `number_column`."""
    inner = node.children[0]
    expand = inner.children[0]
    renumbered = _new_numbers(node["aggregateExpressions"], number)

    def renumber(tree: TreeNode) -> TreeNode | None:
        value = _group_number(tree, number)
        if value is None:
            return None
        fields = {"left": tree.children[0], "right": literal(renumbered[value], "integer")}
        return TreeNode("EqualTo", fields, (fields["left"], fields["right"]))

    results = [transform(tree, renumber) for tree in node["aggregateExpressions"]]
    uses = _ranks([*node["groupingExpressions"], *results])
    keys = sorted(inner["groupingExpressions"], key=lambda key: uses.get(expression_id(key), len(uses)))
    calls = sorted(inner["aggregateExpressions"], key=lambda item: uses.get(expression_id(item), len(uses)))
    below = _expand(expand, _ranks([*keys, *calls]), number, renumbered)
    inner = _with(inner, below, groupingExpressions=keys, aggregateExpressions=calls)
    return _with(node, inner, aggregateExpressions=results)


def _expand(expand: TreeNode, uses: dict[int, int], number: int, renumbered: dict[str, str]) -> TreeNode:
    output = expand["output"]
    order = sorted(range(len(output)), key=lambda i: uses.get(expression_id(output[i]), len(uses)))
    place = [expression_id(output[i]) for i in order].index(number)
    copies = [[copy[i] for i in order] for copy in expand["projections"]]
    for copy in copies:
        copy[place] = literal(renumbered.get(copy[place]["value"], copy[place]["value"]), "integer")
    copies.sort(key=lambda copy: int(copy[place]["value"]))
    return _with(expand, expand.children[0], output=[output[i] for i in order], projections=copies)


def _new_numbers(results: Iterable[TreeNode], number: int) -> dict[str, str]:
    """Old number -> new number, in the order of use. The number 0 is the copy for aggregates without DISTINCT, and stays 0."""
    numbers = {"0": "0"}
    for tree in results:
        for part in tree.walk():
            value = _group_number(part, number)
            if value is not None:
                numbers.setdefault(value, str(len(numbers)))
    return numbers


def _group_number(tree: TreeNode, number: int) -> str | None:
    """n if `tree` is `gid = n`; otherwise None."""
    if tree.kind != "EqualTo" or tree.children[0].kind != "AttributeReference" or tree.children[1].kind != "Literal":
        return None
    return str(tree.children[1]["value"]) if expression_id(tree.children[0]) == number else None


def _ranks(trees: Iterable[TreeNode]) -> dict[int, int]:
    ranks: dict[int, int] = {}
    for tree in trees:
        for leaf in attributes(tree):
            ranks.setdefault(expression_id(leaf), len(ranks))
    return ranks


def _with(node: TreeNode, child: TreeNode, **fields: list[TreeNode] | list[list[TreeNode]]) -> TreeNode:
    return TreeNode(node.kind, {**node.fields, "child": child, **fields}, (child,))
