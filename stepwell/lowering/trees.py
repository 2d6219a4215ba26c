"""Functions that analyse and build Catalyst's expression trees: attributes, substitution, and equality that ignores
ids without meaning.

A tree's fields repeat its children (`left`, `child`, ...). The functions here rebuild both, so that a reader may use
either.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

from stepwell.catalyst.tree import TreeNode

# Fields that distinguish two occurrences of one expression without changing its value.
_MEANINGLESS_FIELDS = frozenset(
    {"exprId", "resultId", "qualifier", "metadata", "explicitMetadata", "nonInheritableMetadataKeys", "nullable"}
)


def expression_id(tree: TreeNode) -> int:
    """The id by which other expressions refer to this attribute or alias."""
    identifier: int = tree["exprId"]["id"]
    return identifier


def attribute(identifier: int, name: str, data_type: Any, nullable: bool = True) -> TreeNode:
    """A reference to a column, in Catalyst's form."""
    return TreeNode(
        "AttributeReference",
        {
            "name": name,
            "dataType": data_type,
            "nullable": nullable,
            "metadata": {},
            "exprId": {"id": identifier},
            "qualifier": [],
        },
        (),
    )


def literal(value: str | None, data_type: Any) -> TreeNode:
    """A constant. `value` is in Catalyst's notation, and None is NULL."""
    return TreeNode("Literal", {"value": value, "dataType": data_type}, ())


def call(kind: str, **arguments: TreeNode) -> TreeNode:
    """An expression over `arguments`, which become both its children and its fields."""
    return TreeNode(kind, dict(arguments), tuple(arguments.values()))


def field_of(struct: TreeNode, number: int) -> TreeNode:
    """The field with this number, in Catalyst's form."""
    return TreeNode("GetStructField", {"child": struct, "ordinal": number, "name": None}, (struct,))


def conjunction(trees: tuple[TreeNode, ...]) -> TreeNode | None:
    """The conjunction (AND) of all `trees`; None if there are none."""
    if not trees:
        return None
    combined = trees[0]
    for tree in trees[1:]:
        combined = call("And", left=combined, right=tree)
    return combined


def conjuncts(tree: TreeNode | None) -> tuple[TreeNode, ...]:
    """The parts of a conjunction, in order."""
    if tree is None:
        return ()
    if tree.kind == "And":
        return conjuncts(tree.children[0]) + conjuncts(tree.children[1])
    return (tree,)


def attributes(tree: TreeNode) -> Iterator[TreeNode]:
    """Every reference to a column in `tree`, as often as it occurs."""
    return (node for node in tree.walk() if node.kind == "AttributeReference")


def references(tree: TreeNode) -> frozenset[int]:
    """The ids of the columns that `tree` reads."""
    return frozenset(expression_id(node) for node in attributes(tree))


def transform(tree: TreeNode, replace: Callable[[TreeNode], TreeNode | None]) -> TreeNode:
    """`tree`, in which every outermost node is replaced for which `replace` returns a node."""
    replacement = replace(tree)
    if replacement is not None:
        return replacement
    if not tree.children:
        return tree
    children = tuple(transform(child, replace) for child in tree.children)
    if all(new is old for new, old in zip(children, tree.children, strict=True)):
        return tree
    renewed = {id(old): new for old, new in zip(tree.children, children, strict=True)}
    fields = {name: _renew(value, renewed) for name, value in tree.fields.items()}
    return TreeNode(tree.kind, fields, children)


def rebuild(
    plan: TreeNode, child: Callable[[TreeNode], TreeNode], expression: Callable[[str, TreeNode], TreeNode]
) -> TreeNode:
    """A plan node with what `child` makes of each node below it, and `expression` of each expression and the name of its field."""
    children = tuple(map(child, plan.children))
    renewed = {id(old): new for old, new in zip(plan.children, children, strict=True)}

    def field(name: str, value: Any) -> Any:
        if isinstance(value, TreeNode):
            return renewed[id(value)] if id(value) in renewed else expression(name, value)
        return [field(name, item) for item in value] if isinstance(value, list) else value

    return TreeNode(plan.kind, {name: field(name, value) for name, value in plan.fields.items()}, children)


def substitute(tree: TreeNode, values: Mapping[int, TreeNode]) -> TreeNode:
    """`tree`, in which the references to the ids in `values` are replaced by those values."""

    def replace(node: TreeNode) -> TreeNode | None:
        return values.get(expression_id(node)) if node.kind == "AttributeReference" else None

    return transform(tree, replace)


def canonical(tree: TreeNode) -> Hashable:
    """The form by which two occurrences are compared. If it is equal, the expressions have equal values on every row."""
    if tree.kind == "AttributeReference":
        return ("column", expression_id(tree))
    if tree.kind == "Alias":
        return canonical(tree.children[0])
    plain = tuple(
        (name, _frozen(value))
        for name, value in sorted(tree.fields.items())
        if name not in _MEANINGLESS_FIELDS and not _holds_tree(value)
    )
    return (tree.kind, plain, tuple(canonical(child) for child in tree.children))


def plain(tree: TreeNode) -> bool:
    """Whether `tree` is a column or a constant, so that it costs nothing to evaluate it twice."""
    return tree.kind in ("AttributeReference", "Literal")


def with_typed_nulls(tree: TreeNode) -> TreeNode:
    """`tree`, in which each NULL without a type (void) is one of a type that a column can have. Its value is the same."""

    def replace(node: TreeNode) -> TreeNode | None:
        return literal(None, "boolean") if node.kind == "Literal" and node["dataType"] == "void" else None

    return transform(tree, replace)


def always_true(tree: TreeNode) -> bool:
    """Whether `tree` asks if a NULL that was put in place of a column is one, or if a constant that was put there equals itself."""
    if any(child.kind != "Literal" for child in tree.children):
        return False
    if tree.kind == "IsNull":
        return tree.children[0]["value"] is None
    if tree.kind not in ("EqualTo", "LessThanOrEqual"):
        return False
    left, right = tree.children
    return left["value"] is not None and canonical(left) == canonical(right)


def unalias(tree: TreeNode) -> TreeNode:
    return tree.children[0] if tree.kind == "Alias" else tree


def _renew(value: Any, renewed: Mapping[int, TreeNode]) -> Any:
    if isinstance(value, TreeNode):
        return renewed.get(id(value), value)
    if isinstance(value, list):
        return [_renew(item, renewed) for item in value]
    return value


def _holds_tree(value: Any) -> bool:
    return isinstance(value, TreeNode) or (isinstance(value, list) and any(_holds_tree(item) for item in value))


def _frozen(value: Any) -> Hashable:
    if isinstance(value, dict):
        return tuple((name, _frozen(item)) for name, item in sorted(value.items()))
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return value  # type: ignore[no-any-return]
