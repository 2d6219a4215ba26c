"""What this release of Stepwell computes in another way than the release that has made a state.

The implementation version of an operator rises when its results, or what its traces hold, change for the same inputs, and so does that of a
function. A plan document has the versions of all that its circuit uses. Bytecode is that of one minor version of Python, so a function of the
user's can only be called by the version that has planned it.

A node that this release computes in another way is **frozen**: it is put in the place of the node as long as the recorded project is in
force. It has no output, and what the node has stored stays as it is. So the node that the next project has in its place is young, and the
content that the state had is compared with the new one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from engine.analysis.definitions import is_end
from engine.expressions import functions
from engine.expressions.functions import versions_in
from engine.model.circuit import Circuit, Node, Recursion, plain_fields
from engine.model.filling import Frozen
from engine.model.python_call import OF_SERIES
from engine.model.rows import PythonMap
from engine.operators.table import operator_of

ImplementationVersions = Mapping[str, int]
"""By "operator KIND" and "function NAME", as far as they have changed since their first version. That of an operator is 1 at first, and that of
a function 0. Also the version of "Python", as `python_of` gives it; without it that of this process is meant. And SERIES, where it is used."""

PYTHON = "Python"

SERIES = "functions over pandas objects"
SERIES_NOW = 1
"""Before, which rows a batch had decided whether integers came as doubles (engine/python/null_patterns.py)."""


def implementation_versions_of(circuit: Circuit) -> dict[str, int]:
    """Returns the versions in this release of all that the circuit uses, as far as they have changed since their first one. What is frozen is
    not used."""
    found: dict[str, int] = {}
    for node in circuit.nodes:
        if isinstance(node, Frozen):
            continue
        for part in _with_body(node):
            if (version := operator_of(part).implementation_version) > 1:
                found[f"operator {part.kind}"] = version
        found |= functions_of(node, _of_this_release())
        if isinstance(node, PythonMap):
            found[PYTHON] = _python_now()
            if _calls_series(node):
                found[SERIES] = SERIES_NOW
    return found


def operators_of(node: Node, versions: ImplementationVersions) -> list[int]:
    """The version of the operator of the node, and of those in its body."""
    return [versions.get(f"operator {part.kind}", 1) for part in _with_body(node)]


def _with_body(node: Node) -> tuple[Node, ...]:
    return (node, *node.body) if isinstance(node, Recursion) else (node,)


def functions_of(node: Node, versions: ImplementationVersions) -> dict[str, int]:
    """The versions of the functions that the SQL of the node names."""
    known = {name.removeprefix(_FUNCTION): number for name, number in versions.items() if name.startswith(_FUNCTION)}
    if not known:
        return {}
    return {
        f"{_FUNCTION}{name}": number
        for text in _texts(plain_fields(node))
        for name, number in versions_in(text, known).items()
    }


def python_of(major: int, minor: int) -> int:
    """A version of Python as a number."""
    return 1000 * major + minor


def python_in(node: Node, versions: ImplementationVersions) -> int | None:
    """The version of Python by which the node's functions can be called; None if it has none."""
    return versions.get(PYTHON, _python_now()) if isinstance(node, PythonMap) else None


def computed_otherwise(circuit: Circuit, versions: ImplementationVersions) -> dict[int, str]:
    """The nodes that this release does not compute as the one did that has made their state, each with what differs, as a clause. `versions`:
    of that release."""
    found: dict[int, str] = {}
    for index, node in enumerate(circuit.nodes):
        if isinstance(node, Frozen):
            continue
        python = python_in(node, versions)
        if (what := _what_differs(node, versions)) is not None:
            found[index] = f"this version of Stepwell computes {what} in another way"
        elif python not in (None, _python_now()):
            found[index] = (
                f"functions in Python were planned by Python {_version_text(python)}, and this is {_version_text(_python_now())}"
            )
    return found


def _calls_series(node: Node) -> bool:
    return isinstance(node, PythonMap) and any(call.form in OF_SERIES for call in node.calls)


def _python_now() -> int:
    return python_of(*sys.version_info[:2])


def _version_text(python: int | None) -> str:
    assert python is not None
    return "{}.{}".format(*divmod(python, 1000))


def _what_differs(node: Node, versions: ImplementationVersions) -> str | None:
    for part, version in zip(_with_body(node), operators_of(node, versions), strict=True):
        if version != operator_of(part).implementation_version:
            return f"operator {part.kind}"
    if _calls_series(node) and versions.get(SERIES) != SERIES_NOW:
        return SERIES
    were, are = functions_of(node, versions), functions_of(node, _of_this_release())
    return next((name for name in sorted({*were, *are}) if were.get(name) != are.get(name)), None)


def can_be_frozen(circuit: Circuit, nodes: Mapping[int, str]) -> bool:
    """Whether all of these belong to the definitions of views. A source, a table, a view and an output have to go on."""
    return not any(is_end(circuit.nodes[index]) for index in nodes)


def freeze(circuit: Circuit, nodes: Mapping[int, str]) -> Circuit:
    """The circuit without what these nodes compute."""
    if not nodes:
        return circuit
    return Circuit(
        tuple(
            Frozen(node.inputs, node.types, holder=node) if index in nodes else node
            for index, node in enumerate(circuit.nodes)
        )
    )


_FUNCTION = "function "


def _of_this_release() -> ImplementationVersions:
    return {f"{_FUNCTION}{name}": number for name, number in functions.IMPLEMENTATION_VERSIONS.items()}


def _texts(plain: Any) -> Iterator[str]:
    if isinstance(plain, dict):
        plain = list(plain.values())
    if isinstance(plain, list):
        for part in plain:
            yield from _texts(part)
    elif isinstance(plain, str):
        yield plain
