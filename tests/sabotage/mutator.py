"""Small mistakes in the code, found by its syntax tree: another comparison, a condition turned round, a number one too large, a call left out.

A mutant replaces the text of one node. What is only for people or for the type checker has none: docstrings, annotations, assertions, the texts
of errors, and the log.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "//", ast.FloorDiv: "*", ast.Mod: "//", ast.BitAnd: "|", ast.BitOr: "&",
    ast.LShift: ">>", ast.RShift: "<<",
}  # fmt: skip
FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list", "reversed": "list"}
NUMBER_MAX = 8
"""Larger numbers are bounds and sizes, which are not wrong by one."""
SILENT = frozenset({"log", "logger", "logging", "warnings"})
"""A call of one of these says something to people."""


@dataclass(frozen=True)
class Mutant:
    """In `file`, the characters from `start` to `end` become `new`. `line` counts from 1."""

    file: str
    line: int
    start: int
    end: int
    new: str

    def apply(self, root: Path) -> None:
        path = root / self.file
        text = path.read_text()
        path.write_text(text[: self.start] + self.new + text[self.end :])

    def told(self, root: Path) -> tuple[str, str]:
        """The line before and after, without what is around them."""
        text = (root / self.file).read_text()
        first = text.rfind("\n", 0, self.start) + 1
        last = text.find("\n", self.end)
        before, after = text[first:last], text[first : self.start] + self.new + text[self.end : last]
        return " ".join(before.split()), " ".join(after.split())


def mutants_of(root: Path, file: str) -> Iterator[Mutant]:
    """All mutants of a module, in the order of the tree."""
    text = (root / file).read_text()
    begins = [0]
    for line in text.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))

    def place(line: int, column: int) -> int:
        """Columns of the tree count bytes."""
        whole = text[begins[line - 1] : begins[line]]
        return begins[line - 1] + len(whole.encode()[:column].decode())

    def put(node: ast.expr | ast.stmt, new: str) -> Mutant:
        assert node.end_lineno is not None and node.end_col_offset is not None
        start, end = place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset)
        return Mutant(file, node.lineno, start, end, new)

    for node in _walk(ast.parse(text)):
        for changed in _changes(node):
            yield put(node, f"({changed})" if isinstance(node, ast.expr) else changed)


def _walk(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """The nodes that a mutant may replace."""
    if isinstance(tree, ast.Assert | ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return
    if isinstance(tree, ast.Call) and _root_name(tree.func) in SILENT:
        return
    if isinstance(tree, ast.expr | ast.stmt):
        yield tree
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_params", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child)


def _root_name(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _changes(node: ast.expr | ast.stmt) -> Iterator[str]:
    """What can stand in the node's place."""
    match node:
        case ast.Compare(left, [op], [right]):
            yield f"{ast.unparse(left)} {COMPARISONS[type(op)]} {ast.unparse(right)}"
        case ast.BinOp(left, op, right) if type(op) in ARITHMETIC and not _is_text(left) and not _is_text(right):
            yield f"{_closed(left)} {ARITHMETIC[type(op)]} {_closed(right)}"
        case ast.BoolOp(op, values):
            other = " or " if isinstance(op, ast.And) else " and "
            yield other.join(map(_closed, values))
            yield ast.unparse(values[0])
        case ast.UnaryOp(ast.Not(), operand):
            yield ast.unparse(operand)
        case ast.IfExp(test, body, orelse):
            yield f"{_closed(orelse)} if {_closed(test)} else {_closed(body)}"
        case ast.Constant(value) if isinstance(value, bool):
            yield str(not value)
        case ast.Constant(value) if isinstance(value, int) and value <= NUMBER_MAX:
            yield str(value + 1)
        case ast.Call(ast.Name(name), [_, *_] as arguments, keywords) if name in FUNCTIONS and not keywords:
            yield f"{FUNCTIONS[name]}({', '.join(map(ast.unparse, arguments))})"
        case ast.Expr(ast.Call()):
            yield "pass"
        case ast.Break():
            yield "pass"
        case ast.Continue():
            yield "pass"
        case _:
            return


def _closed(node: ast.expr) -> str:
    return f"({ast.unparse(node)})"


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


@cache
def imports_of(path: Path) -> frozenset[str]:
    """The modules that a file imports, with dots. `from a.b import c` may mean a.b or a.b.c."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)
