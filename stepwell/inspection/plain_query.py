"""Queries that need no Spark, because they compute nothing: they read the rows of one view, and at most order and cut them.

    SELECT *  |  column, column, ...
    FROM view
    [ORDER BY column | position [ASC | DESC] [NULLS FIRST | NULLS LAST], ...]
    [LIMIT number]

Guarantee: a text for which `plain_query` returns something means exactly that in Spark SQL too, provided that the view has the columns that it
names. Everything else returns None, and Spark parses it: other clauses, expressions, aliases, qualified names, comments, and names that are
words of the language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

LIMIT_DIGITS_MAX = 9
"""A number with more digits may not fit into an INT, and then Spark refuses the query."""

_TOKEN = re.compile(r"\s*(?:([A-Za-z_][A-Za-z0-9_]*)|`([^`]+)`|([0-9]+)|([*,;]))", re.ASCII)

_WORDS = """
ALL AND ANTI ANY ARRAY AS ASC BETWEEN BY CASE CAST CLUSTER CROSS CURRENT CURRENT_PATH DATE DESC DISTINCT DISTRIBUTE ELSE END EXCEPT EXISTS FALSE
FILTER FIRST FROM FULL GROUP HAVING IN INNER INTERSECT INTERVAL INTO IS JOIN LAST LATERAL LEFT LIKE LIMIT MAP MATCH_RECOGNIZE MINUS NATURAL NOT
NULL NULLS OFFSET ON OR ORDER OUTER PIVOT REDUCE RIGHT SELECT SEMI SOME SORT STREAM STRUCT TABLE TABLESAMPLE THEN TIME TIMESTAMP TIMESTAMP_LTZ
TIMESTAMP_NTZ TRANSFORM TRUE UNION UNPIVOT USING VALUES WATERMARK WHEN WHERE WINDOW WITH
"""
_NO_NAMES = frozenset(_WORDS.split())
"""Words that may mean something else than a name where a name can stand. A name in backticks is one in any case."""


@dataclass(frozen=True)
class OrderItem:
    """One item of ORDER BY. `by`: the name of a column, or a position in the list of columns, from 1."""

    by: str | int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class PlainQuery:
    """`columns`: their names as they are written; None stands for all. Names are compared without regard to case. `limit`: rows at most; None
    if there is no such clause."""

    view: str
    columns: tuple[str, ...] | None
    order: tuple[OrderItem, ...]
    limit: int | None


def plain_query(sql: str) -> PlainQuery | None:
    """What the text asks for, if it is of the form above; None otherwise."""
    try:
        return _PlainReader(list(_tokens(sql))).query()
    except _NotPlain:
        return None


class _NotPlain(Exception):
    """The text has something that is left to Spark."""


@dataclass(frozen=True)
class _Token:
    """`text` is in upper case for a word without backticks, and `name` as it is written; None for what cannot be a name."""

    text: str
    name: str | None = None


def _tokens(sql: str) -> Iterator[_Token]:
    at, end = 0, len(sql.rstrip())
    while at < end:
        found = _TOKEN.match(sql, at)
        if found is None:
            raise _NotPlain
        word, quoted, number, sign = found.groups()
        if word is not None:
            yield _Token(word.upper(), None if word.upper() in _NO_NAMES else word)
        elif quoted is not None:
            yield _Token("`", quoted)
        else:
            yield _Token(number or sign)
        if number is not None and sql[found.end() : found.end() + 1].isidentifier():
            raise _NotPlain  # 1L, 2e3
        at = found.end()


class _PlainReader:
    """Reads the tokens from the first to the last."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def query(self) -> PlainQuery:
        self._take("SELECT")
        columns = None if self._has("*") else self._names()
        self._take("FROM")
        view = self._name()
        order = self._order() if self._has("ORDER") else ()
        limit = self._number() if self._has("LIMIT") else None
        self._has(";")
        if self._at != len(self._tokens):
            raise _NotPlain
        return PlainQuery(view, columns, order, limit)

    def _names(self) -> tuple[str, ...]:
        names = [self._name()]
        while self._has(","):
            names.append(self._name())
        return tuple(names)

    def _order(self) -> tuple[OrderItem, ...]:
        self._take("BY")
        keys = [self._order_item()]
        while self._has(","):
            keys.append(self._order_item())
        return tuple(keys)

    def _order_item(self) -> OrderItem:
        by = self._number() if self._next().text.isdigit() else self._name()
        descending = self._has("DESC")
        if not descending:
            self._has("ASC")
        nulls_first = not descending
        if self._has("NULLS"):
            nulls_first = self._has("FIRST")
            if not nulls_first:
                self._take("LAST")
        return OrderItem(by, descending, nulls_first)

    def _next(self) -> _Token:
        if self._at == len(self._tokens):
            raise _NotPlain
        return self._tokens[self._at]

    def _has(self, text: str) -> bool:
        """Takes the next token if it is this one."""
        if self._at == len(self._tokens) or self._tokens[self._at].text != text:
            return False
        self._at += 1
        return True

    def _take(self, text: str) -> None:
        if not self._has(text):
            raise _NotPlain

    def _name(self) -> str:
        name = self._next().name
        if name is None:
            raise _NotPlain
        self._at += 1
        return name

    def _number(self) -> int:
        text = self._next().text
        if not text.isdigit() or len(text) > LIMIT_DIGITS_MAX:
            raise _NotPlain
        self._at += 1
        return int(text)
