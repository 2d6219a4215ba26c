"""A Catalyst plan or expression tree, read from Spark's own `toJSON`.

Spark flattens a tree to a list of nodes in pre-order, each with its number of children. A field that refers to a child
has the child's index. A field that holds an expression has that expression's own flattened list. Here both become
`TreeNode`, whose fields hold trees wherever Spark had trees. This module does not know the meaning of any class.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class TreeNode:
    """One node. `kind` is the simple class name ("Project", "Add"), and `fields` has the constructor arguments by name."""

    kind: str
    fields: dict[str, Any]
    children: tuple[TreeNode, ...]

    def __repr__(self) -> str:
        """The kind alone, because plans share subtrees, and a whole tree would be written once for each way to it."""
        return f"<{self.kind}>"

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.fields.get(name, default)

    def walk(self) -> Iterator[TreeNode]:
        """This node and all nodes below it through `children`, but not those in other fields, in pre-order."""
        yield self
        for child in self.children:
            yield from child.walk()


def parse(text: str) -> TreeNode:
    """The tree of Spark's `plan.toJSON()` or `expression.toJSON()`."""
    return tree_of(json.loads(text))


def tree_of(flat: list[dict[str, Any]]) -> TreeNode:
    """The tree of that JSON, after it has been read."""
    node, end = _read(flat, 0)
    if end != len(flat):
        raise ValueError(f"{len(flat) - end} nodes left over after the root {node.kind}: not one tree")
    return node


def walk_all(tree: TreeNode) -> Iterator[TreeNode]:
    """Every node once: a node, then the trees in its fields (such as subqueries in expressions), then its children."""
    yield tree
    children = {id(child) for child in tree.children}
    for inner in trees_in(tree.fields.values()):
        if id(inner) not in children:
            yield from walk_all(inner)
    for child in tree.children:
        yield from walk_all(child)


def trees_in(values: Iterable[Any]) -> Iterator[TreeNode]:
    """The trees among values of fields and in lists among them, in order, without what is in those trees."""
    for value in values:
        if isinstance(value, TreeNode):
            yield value
        elif isinstance(value, list):
            yield from trees_in(value)


def _is_tree(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, dict) and "class" in item and "num-children" in item for item in value)
    )


def _read(flat: list[dict[str, Any]], position: int) -> tuple[TreeNode, int]:
    raw = flat[position]
    children: list[TreeNode] = []
    end = position + 1
    for _ in range(raw["num-children"]):
        child, end = _read(flat, end)
        children.append(child)
    fields = {
        name: _field(name, value, children) for name, value in raw.items() if name not in ("class", "num-children")
    }
    return TreeNode(raw["class"].rsplit(".", 1)[-1], fields, tuple(children)), end


# Constructor arguments that are plain integers. Every other integer refers to a child.
_PLAIN_INTEGERS = frozenset(
    {
        "index",
        "ordinal",
        "precision",
        "scale",
        "numPartitions",
        "baseRowCount",
        "id",
        "loopId",
        "maxDepth",
        "evalType",
        "n",
        "seed",
    }
)


def _field(name: str, value: Any, children: list[TreeNode]) -> Any:
    if _is_tree(value):
        return tree_of(value)
    if isinstance(value, list):
        return [_field(name, item, children) for item in value]
    if type(value) is int and name not in _PLAIN_INTEGERS and 0 <= value < len(children):
        return children[value]
    return value
