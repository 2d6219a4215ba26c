"""A plan or expression of Spark as a `TreeNode`, including what Spark's `toJSON` leaves out.

`toJSON` writes null for fields whose type it does not know. Some of these fields change a result, and are read from the JVM's objects:

- the evaluation mode of casts and arithmetic, because `try_add(a, b)` and `a + b` have the same JSON. The field `evalMode` is "ANSI",
  "TRY" or "LEGACY";
- the values of an `InSet`, which become `Literal` children after the operand;
- the options of `from_json` and `to_json`. The latter arrives as a call of Java code, and becomes the expression `StructsToJson` again;
- the escape character of LIKE and the patterns of LIKE ALL;
- the values of a PIVOT, which become `Literal` trees in the field `pivotColumnValues`;
- the pickle of a function in Python, and the settings with which Spark would call it: the fields `pickled` and `settings` of a PythonUDF
  or PythonUDAF;
- whether an Aggregate groups by a session window: its field `sessionWindow` has the column's expression id;
- literals of binary, date, timestamp, variant, array and struct type.

`toJSON` also writes null for a sequence of Vectors (`Expand.projections`; whether it holds Vectors depends on the optimiser's rules that
have changed the node) and for a sequence of integers (`Generate.unrequiredChildIndex`). Both are read here. It writes `{}` for all
metadata, which `column_metadata` reads for a single column.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from py4j.java_gateway import JavaObject, get_field
from pyspark import SparkContext

from base.text.timestamps import DAY_US
from stepwell.catalyst.scala import scala_items
from stepwell.catalyst.tree import TreeNode, parse, trees_in
from stepwell.catalyst.variants import variant_literal

SESSION_WINDOW = "session_window"
"""The name that Spark gives to the column of a session window."""
SESSION_METADATA = "spark.sessionWindow"
"""The metadata key by which Spark's planner recognises the column. Nothing else in the plan says that sessions have to be merged."""
_PYTHON_SETTINGS = frozenset(
    {
        "spark.sql.execution.arrow.useLargeVarTypes",
        "spark.sql.execution.pandas.convertToArrowArraySafely",
        "spark.sql.execution.pyspark.binaryAsBytes",
        "spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled",
        "spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype",
        "spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName",
        "spark.sql.legacy.execution.pythonUDF.pandas.conversion.enabled",
        "spark.sql.session.timeZone",
    }
)
"""What PySpark's worker reads when it converts values. The circuit holds them, so another one, which Spark sends too, must not change it."""
_JSON_WRITER = "StructsToJsonEvaluator("  # how the JSON shows the object on which to_json is called
_URL_PARSER = "ParseUrlEvaluator("  # the same for parse_url
_TREE = "org.apache.spark.sql.catalyst.trees.TreeNode"
# Fields that toJSON may write as null although they are never null.
_SEQUENCES = {"Expand": "projections", "Generate": "unrequiredChildIndex"}
# The JSON of these is a text for people, or the name of a Java object.
_RAW_LITERALS = frozenset({"binary", "date", "timestamp", "timestamp_ntz", "interval", "variant"})


def read(java: Any) -> TreeNode:
    """The tree of a Java `LogicalPlan` or `Expression` (a py4j object)."""
    return _complete(parse(java.toJSON()), java)


def column_metadata(java: Any, identifier: int) -> dict[str, Any]:
    """The metadata of the column with this expression id, in the JVM's `LogicalPlan` or a subquery of it. Empty if there is none."""
    subqueries = java.subqueriesAll()
    waiting = [java, *scala_items(subqueries)]
    while waiting:
        plan = waiting.pop()
        for column in scala_items(plan.output()):
            if column.exprId().id() == identifier:
                found: dict[str, Any] = json.loads(column.metadata().json())
                return found
        waiting += scala_items(plan.children())
    return {}


def _lossy(node: TreeNode) -> bool:
    if node.kind == "Literal":
        type_ = node["dataType"]
        return node["value"] is not None and (isinstance(type_, dict) or type_ in _RAW_LITERALS)
    return (
        node.kind in _LOST_FIELDS
        or node.kind == "InSet"
        or _writes_json(node)
        or _object_called(node).startswith(_URL_PARSER)
        or _may_group_by_sessions(node)
        or _has_lost_sequence(node)
    )


def _writes_json(node: TreeNode) -> bool:
    return _object_called(node).startswith(_JSON_WRITER)


def _object_called(node: TreeNode) -> str:
    """The text of the Java object of which an Invoke calls a method; empty if there is none."""
    target = node.children[0] if node.kind == "Invoke" and node.children else None
    return str(target["value"]) if target is not None and target.kind == "Literal" else ""


def _may_group_by_sessions(node: TreeNode) -> bool:
    return node.kind == "Aggregate" and any(
        key.kind == "AttributeReference" and key["name"] == SESSION_WINDOW for key in node["groupingExpressions"]
    )


def _session_window(java: Any) -> int | None:
    """The id of the session window by which the JVM's Aggregate groups."""
    for key in scala_items(java.groupingExpressions()):
        if key.getClass().getSimpleName() == "AttributeReference" and key.metadata().contains(SESSION_METADATA):
            return int(key.exprId().id())
    return None


def _has_lost_sequence(node: TreeNode) -> bool:
    return node.kind in _SEQUENCES and node[_SEQUENCES[node.kind]] is None


def _needs(node: TreeNode) -> bool:
    """Whether the JSON of the node or of anything below it lacks something. Only then is the JVM asked, because every call is a round trip."""
    return (
        _lossy(node)
        or any(_needs(child) for child in node.children)
        or any(_needs(tree) for value in node.fields.values() for tree in _own(value, node))
    )


def _own(value: Any, node: TreeNode) -> list[TreeNode]:
    """The trees in a field that are not the node's children: a plan's expressions, a subquery's plan, or a repeated optional child."""
    children = {id(child) for child in node.children}
    return [tree for tree in trees_in([value]) if id(tree) not in children]


def _complete(node: TreeNode, java: Any) -> TreeNode:
    if not _needs(node):
        return node
    if node.kind == "Literal":
        return _literal(node["dataType"], java.value(), java.dataType())
    if _writes_json(node):
        value = _complete(node.children[1], java.children().apply(1))
        return TreeNode("StructsToJson", {"options": _pairs(java.targetObject().value().options())}, (value,))
    if (parser := _object_called(node)).startswith(_URL_PARSER):
        values = tuple(
            _complete(child, java.children().apply(index)) for index, child in enumerate(node.children) if index
        )
        return TreeNode("ParseUrl", {"failOnError": parser.endswith(",true)")}, values)
    new: dict[int, TreeNode] = {}
    below = java.children()
    for index, child in enumerate(node.children):
        new[id(child)] = _complete(child, below.apply(index))
    for index, value in enumerate(node.fields.values()):
        own = _own(value, node)
        if any(_needs(tree) for tree in own):
            # The JSON has the arguments of the constructor, in order.
            others = _java_trees([java.productElement(index)])
            assert len(own) == len(others), (
                f"{node.kind}: {len(others)} trees in the JVM's field {index}, {len(own)} in the JSON's"
            )
            for tree, other in zip(own, others, strict=True):
                new[id(tree)] = _complete(tree, other)
    fields = {name: _replace(value, new) for name, value in node.fields.items()}
    children = tuple(new[id(child)] for child in node.children)
    if node.kind in _LOST_FIELDS:
        fields |= _LOST_FIELDS[node.kind](java)
    if _may_group_by_sessions(node):
        fields["sessionWindow"] = _session_window(java)
    if node.kind == "InSet":
        children += _set_members(java)
    if _has_lost_sequence(node):
        name = _SEQUENCES[node.kind]
        fields[name] = _sequence(getattr(java, name)())
    return TreeNode(node.kind, fields, children)


def _sequence(values: Any) -> list[Any]:
    """A Scala sequence of expressions, of integers, or of such sequences."""
    found: list[Any] = []
    for value in scala_items(values):
        if not isinstance(value, JavaObject):
            found.append(value)
        elif _is_a(value, _TREE):
            found.append(read(value))
        else:
            found.append(_sequence(value))
    return found


def _java_trees(values: Iterable[Any]) -> list[Any]:
    """The trees among a node's constructor arguments, in order. Like toJSON, it looks into options and sequences."""
    found: list[Any] = []
    for value in values:
        if not isinstance(value, JavaObject):
            continue
        if _is_a(value, _TREE):
            found.append(value)
        elif _is_a(value, "scala.collection.IterableOnce"):
            found += _java_trees(scala_items(value))
    return found


def _pairs(options: Any) -> dict[str, str]:
    """A Scala map of texts."""
    return dict(sorted((pair._1(), pair._2()) for pair in scala_items(options)))


def _python_function(java: Any) -> dict[str, Any]:
    """The pickle of a JVM's PythonUDF, and the settings that Spark sends to a Python worker with it."""
    jvm = SparkContext._active_spark_context._jvm
    pickled = bytes(java.func().command().toArray(getattr(jvm, "scala.reflect.ClassTag").Byte()))
    conf = getattr(jvm, "org.apache.spark.sql.internal.SQLConf").get()
    runner = getattr(jvm, "org.apache.spark.sql.execution.python.ArrowPythonRunner")
    sent = _pairs(runner.getPythonRunnerConfMap(conf))
    return {"pickled": pickled, "settings": tuple((key, sent[key]) for key in sorted(_PYTHON_SETTINGS & sent.keys()))}


def _is_a(value: JavaObject, name: str) -> bool:
    return bool(_type_test(SparkContext._active_spark_context._jvm)(name, value))


@lru_cache(maxsize=1)
def _type_test(jvm: Any) -> Any:
    """The JVM's function that tests the class of a value. Py4J's `is_instance_of` resolves it again for each value, package by package, and the
    JVM searches all jars for a class with the name of each package."""
    return getattr(jvm, "py4j.reflection.TypeUtil").isInstanceOf


def _replace(value: Any, new: dict[int, TreeNode]) -> Any:
    if isinstance(value, TreeNode):
        return new.get(id(value), value)
    if isinstance(value, list):
        return [_replace(item, new) for item in value]
    return value


def _set_members(java: Any) -> tuple[TreeNode, ...]:
    """The values of an InSet, sorted by their text. A set has no order, but equal sets must give equal circuits."""
    java_type = java.child().dataType()
    type_ = json.loads(java_type.json())
    members = [_literal(type_, value, java_type) for value in scala_items(java.hset())]
    return tuple(sorted(members, key=lambda member: str(member.get("value"))))


def _pivot_values(java: Any) -> dict[str, Any]:
    """The values of the pivot column, in the order of the columns that are made of them."""
    java_type = java.pivotColumn().dataType()
    type_ = json.loads(java_type.json())
    return {"pivotColumnValues": [_literal(type_, value, java_type) for value in scala_items(java.pivotColumnValues())]}


def _literal(type_: Any, value: Any, java_type: Any) -> TreeNode:
    """A literal from the JVM's internal value: days, microseconds or bytes. A nested literal becomes the expression that builds it."""
    if type_ == "interval" and value is not None:
        return _calendar_interval(value)
    if value is None or isinstance(type_, str):
        plain = value if value is None or isinstance(value, bytes) else _plain(type_, value)
        return TreeNode("Literal", {"value": plain, "dataType": type_}, ())
    if type_["type"] == "array":
        element = java_type.elementType()
        items = [
            value.get(index, element) if not value.isNullAt(index) else None for index in range(value.numElements())
        ]
        children = tuple(_literal(type_["elementType"], item, element) for item in items)
        return TreeNode("CreateArray", {"elementType": type_["elementType"]}, children)
    if type_["type"] == "struct":
        children = ()
        for index, field in enumerate(type_["fields"]):
            inner = java_type.apply(index).dataType()
            item = None if value.isNullAt(index) else value.get(index, inner)
            name = TreeNode("Literal", {"value": field["name"], "dataType": "string"}, ())
            children = (*children, name, _literal(field["type"], item, inner))
        return TreeNode("CreateNamedStruct", {}, children)
    if type_["type"] == "map":
        parts = (
            (value.keyArray(), "keyType", java_type.keyType()),
            (value.valueArray(), "valueType", java_type.valueType()),
        )
        keys, values = (
            [None if part.isNullAt(i) else part.get(i, inner) for i in range(part.numElements())]
            for part, _, inner in parts
        )
        children = ()
        for key, item in zip(keys, values, strict=True):
            pair = (
                _literal(type_[name], cell, inner) for cell, (_, name, inner) in zip((key, item), parts, strict=True)
            )
            children = (*children, *pair)
        return TreeNode("CreateMap", {"dataType": type_}, children)
    return TreeNode("Literal", {"value": str(value), "dataType": type_}, ())


def _calendar_interval(value: Any) -> TreeNode:
    """An interval of months, days and microseconds. Without months it is a day-time interval, for a day has 24 hours in UTC."""
    months, days, us = (get_field(value, name) for name in ("months", "days", "microseconds"))
    if months:
        return TreeNode("Literal", {"value": value.toString(), "dataType": "interval"}, ())
    return TreeNode("Literal", {"value": str(days * DAY_US + us), "dataType": "interval day to second"}, ())


def _plain(type_: str, value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if type_ == "variant":
        return variant_literal(value)
    if type_ in _RAW_LITERALS:
        return int(value)
    return value.toString() if isinstance(value, JavaObject) else str(value)


_LOST_FIELDS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    **dict.fromkeys(
        ("Cast", "Add", "Subtract", "Multiply", "Divide", "IntegralDivide", "Remainder", "Pmod", "Average"),
        lambda java: {"evalMode": java.evalMode().toString()},
    ),
    "Sum": lambda java: {"evalMode": java.evalContext().evalMode().toString()},
    "Like": lambda java: {"escapeChar": str(java.escapeChar())},
    **dict.fromkeys(
        ("LikeAll", "NotLikeAll", "LikeAny", "NotLikeAny"),
        lambda java: {"patterns": [None if p is None else p.toString() for p in scala_items(java.patterns())]},
    ),
    "JsonToStructs": lambda java: {"options": _pairs(java.options())},
    **dict.fromkeys(("PythonUDF", "PythonUDAF"), _python_function),
    "PivotFirst": _pivot_values,
}
"""By the kind of node: the fields that its JSON always lacks, from the JVM's node. What is lost only in some nodes of a kind, or is no field,
has functions of its own above."""
