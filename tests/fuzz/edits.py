"""Edits of a project: what people change in the definition of a view, and in what is published of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from tests.fuzz.cases import Case, View, without_views
from tests.fuzz.terms import (
    Cdc,
    Derived,
    Expr,
    Flows,
    Item,
    Joined,
    Named,
    NoForm,
    Query,
    Select,
    SetOperation,
    tables_of,
    walk,
)
from tests.fuzz.values import has_floats

Types = Mapping[str, str]
KEPT = "all_"
"""How the names of views begin that hold all rows of a source."""
OUTER = ("INNER", "LEFT", "RIGHT", "FULL")


@dataclass(frozen=True)
class Place:
    """A view of a project that is edited. `types`: of its columns, with Spark's names."""

    case: Case
    view: View
    types: Types
    chance: random.Random

    @property
    def is_read(self) -> bool:
        return any(self.view.name in tables_of(other.query) for other in self.case.views)

    @property
    def items(self) -> tuple[Item, ...]:
        return tuple(Item(Expr(f"q.{name}", kind), name) for name, kind in self.types.items())

    @property
    def query(self) -> Select:
        """All rows of the view, from its query."""
        return Select(self.items, Derived(self.view.query, "q"))

    @property
    def compared(self) -> list[str]:
        """The columns that can be compared."""
        return [name for name, kind in self.types.items() if "map" not in kind]

    def with_query(self, query: Query, **fields_: Any) -> Case:
        return self.with_view(replace(self.view, query=query, as_frame=False, **fields_))

    def with_view(self, *views: View) -> Case:
        """In place of the view."""
        made = (new for v in self.case.views for new in (views if v.name == self.view.name else (v,)))
        return replace(self.case, views=tuple(made))


Edit = Callable[[Place], Case | None]
"""The edited project; None if the view cannot be edited in this way."""


def dropped(at: Place) -> Case | None:
    """Also what reads it."""
    return without_views(at.case, {at.view.name})


def filtered(at: Place) -> Case | None:
    """Two such edits of one view differ in a literal."""
    if not at.compared:
        return None
    column = at.chance.choice(at.compared)
    number = at.chance.choice((2, 3))
    return at.with_query(replace(at.query, where=(Expr(f"hash(q.{column}) % {number} <> 0", "boolean"),)))


def distinct(at: Place) -> Case | None:
    return at.with_query(replace(at.query, distinct=True)) if len(at.compared) == len(at.types) else None


def doubled(at: Place) -> Case | None:
    return None if at.view.key else at.with_query(SetOperation(at.query, at.query, "UNION ALL"))


def with_column(at: Place) -> Case | None:
    """In front of the others."""
    return at.with_query(replace(at.query, items=(Item(Expr("1", "int"), "more"), *at.items)))


def without_column(at: Place) -> Case | None:
    names = [name for name in at.types if name not in at.view.key]
    if at.is_read or len(at.types) < 2 or not names:
        return None
    gone = at.chance.choice(names)
    kept = tuple(item for item in at.items if item.name != gone)
    loose = tuple(pair for pair in at.view.loose if pair[0] != gone)
    return at.with_query(replace(at.query, items=kept), loose=loose)


def other_join(at: Place) -> Case | None:
    found = [node for node in walk(at.view.query) if isinstance(node, Joined) and node.kind in OUTER]
    if at.view.key or not found or at.is_read:
        return None
    join = at.chance.choice(found)
    kind = at.chance.choice([kind for kind in OUTER if kind != join.kind])
    return at.with_query(_replaced(at.view.query, join, replace(join, kind=kind)))


def grouped(at: Place) -> Case | None:
    """Two such edits of one view differ in a column of GROUP BY."""
    if at.is_read or at.view.key:
        return None
    names = [name for name in at.compared if not has_floats(at.types[name])]
    if not names:
        return None
    group = names[: at.chance.choice((1, 2))]
    count = Item(Expr("count(*)", "bigint"), "n")
    items = tuple(item for item in at.items if item.name in group)
    keys = tuple(item.expr for item in items)
    return at.with_query(replace(at.query, items=(*items, count), group=keys), loose=())


def limited(at: Place) -> Case | None:
    """The first rows in an order of all columns, so that there is one answer."""
    if len(at.compared) < len(at.types) or any(has_floats(k) or "<" in k or "interval" in k for k in at.types.values()):
        return None
    order = ", ".join(f"q.{name}" for name in at.types)
    tail = (Expr(f"ORDER BY {order}", ""), Expr(f"LIMIT {at.chance.choice((2, 4))}", ""))
    return at.with_query(replace(at.query, tail=tail))


def split(at: Place) -> Case | None:
    """What the view computes is a view of its own, which it reads."""
    part = replace(at.view, name=f"{at.view.name}_part", mode=None, key=())
    whole = replace(at.view, query=Select(at.items, Named(part.name, "q")), as_frame=False)
    return at.with_view(part, whole)


def copied(at: Place) -> Case | None:
    """Another view has all rows of the view, so later its state has them too."""
    name = f"{at.view.name}_copy"
    if any(each.name == name for each in at.case.views):
        return None
    copy = replace(
        at.view, name=name, query=Select(at.items, Named(at.view.name, "q")), mode=None, key=(), as_frame=False
    )
    return at.with_view(at.view, copy)


def renamed(at: Place) -> Case | None:
    """The topic is called like the view, so it is another one."""
    name = f"{at.view.name}_renamed"
    views = tuple(replace(v, query=_reading(v.query, at.view.name, name)) for v in at.case.views)
    at = replace(at, case=replace(at.case, views=views), view=next(v for v in views if v.name == at.view.name))
    return at.with_view(replace(at.view, name=name))


def unpublished(at: Place) -> Case | None:
    """Or published, if it is not."""
    if at.view.mode is not None:
        return at.with_view(replace(at.view, mode=None, key=()))
    return (
        None if any("map" in kind for kind in at.types.values()) else at.with_view(replace(at.view, mode="changelog"))
    )


def temporary(at: Place) -> Case | None:
    """What reads it has its definition from then on."""
    return at.with_view(replace(at.view, temporary=True, mode=None, key=())) if at.is_read else None


EDITS: dict[str, Edit] = {
    "drop": dropped,
    "filter": filtered,
    "distinct": distinct,
    "double": doubled,
    "column": with_column,
    "no column": without_column,
    "join": other_join,
    "group": grouped,
    "limit": limited,
    "split": split,
    "copy": copied,
    "rename": renamed,
    "publish": unpublished,
    "temporary": temporary,
}


WITH_ITS_COLUMNS = ("filter", "distinct", "double", "join", "limit", "rename")
"""Edits after which the view has the columns that it had, so that another edit of it can follow."""


def edited(case: Case, types: Mapping[str, Types], chance: random.Random) -> tuple[Case, tuple[str, ...]]:
    """The case with other definitions, and the names of the edits. `types`: the columns of each view. Some views are edited twice, such as
    renamed and filtered."""
    other, names = case, []
    for view in case.views:
        if not view.name.startswith(KEPT) and chance.random() < 0.5 and view in other.views:
            name = chance.choice(list(EDITS))
            made = _edited(Place(other, view, types.get(view.name, {}), chance), name)
            if made is None:
                continue
            place, other = other.views.index(view), made
            names.append(name)
            if name in WITH_ITS_COLUMNS and chance.random() < 0.5:
                more = chance.choice(list(EDITS))
                again = _edited(Place(other, other.views[place], types.get(view.name, {}), chance), more)
                if again is not None:
                    other = again
                    names.append(more)
    if chance.random() < 0.2:
        other = replace(other, views=reordered(other.views))
        names.append("order")
    return other, tuple(names)


def _edited(at: Place, name: str) -> Case | None:
    if name in ("drop", "publish"):
        return EDITS[name](at)
    if not at.types or at.view.temporary or at.view.any_of is not None or isinstance(at.view.query, Cdc | Flows):
        return None
    try:
        made = EDITS[name](at)
        return made if made is None or all(view.query.sql for view in made.views if not view.as_frame) else None
    except NoForm:
        return None


def reordered(views: Sequence[View]) -> tuple[View, ...]:
    """In another order in which each view comes behind those that it reads."""
    left, made = list(reversed(views)), []
    while left:
        names = {view.name for view in left}
        ready = next(view for view in left if not tables_of(view.query) & (names - {view.name}))
        left.remove(ready)
        made.append(ready)
    return tuple(made)


def with_rows_kept(case: Case, chance: random.Random) -> Case:
    """With views that hold all rows of some sources without a key, so that young nodes need no messages of them again; and with topics to which
    rows may be taken back, because an edit may do that."""
    kept = tuple(
        View(f"{KEPT}{source.name}", Select(items, Named(source.name, "a")))
        for source in case.sources
        if not source.key and source.read != "reader" and chance.random() < 0.4
        for items in [tuple(Item(Expr(f"a.{name}", kind), name) for name, kind, _ in source.columns)]
    )
    views = (replace(v, mode="changelog") if v.mode == "append" and chance.random() < 0.8 else v for v in case.views)
    return replace(case, views=(*kept, *views))


def _replaced(tree: Any, old: Any, new: Any) -> Any:
    return _mapped(tree, lambda part: new if part is old else None)


def _reading(tree: Any, old: str, new: str) -> Any:
    """A query with another name of a view."""
    return _mapped(tree, lambda part: replace(part, name=new) if isinstance(part, Named) and part.name == old else None)


def _mapped(tree: Any, change: Callable[[Any], Any]) -> Any:
    made = change(tree)
    if made is not None:
        return made
    if isinstance(tree, tuple):
        return tuple(_mapped(part, change) for part in tree)
    if not is_dataclass(tree) or isinstance(tree, type):
        return tree
    return replace(tree, **{field.name: _mapped(getattr(tree, field.name), change) for field in fields(tree)})
