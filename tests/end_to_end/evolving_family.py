"""A family of projects for a campaign that goes from one to the next: a project, an edit of it, and its files.

Each view has some definitions that people write in place of each other. An edit takes another one, drops a view, brings one, or
gives it another name or topic. Drawn are only projects whose answer Spark's batch engine has too: there is no Deduplicate, whose
rows depend on which of them came first, and event time never goes back within the one partition of its topic, so no row is late.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path


@dataclass(frozen=True)
class Kind:
    """A view. `queries`: its definitions; names of views that it reads stand in braces. `columns`: of each definition a number, which
    differs where the columns do; empty if all have the same. `reads`: these views. `stays`: it is never dropped."""

    mode: str
    queries: tuple[str, ...]
    key: str = ""
    columns: tuple[int, ...] = ()
    reads: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    is_streaming: bool = False
    is_python: bool = False
    format: str = "json"
    stays: bool = False

    def columns_of(self, query: int) -> int:
        return self.columns[query] if self.columns else 0


COUNTED = (
    "SELECT window.start AS start, count(*) AS c, sum(n) AS n FROM STREAM ticks WATERMARK at DELAY OF INTERVAL {delay} MINUTES "
    "GROUP BY window(at, '{width} minutes')"
)
WINDOWS = ((1, 5), (2, 10), (3, 5))
"""Delay and width in minutes, of each definition of `counted`."""

KINDS: dict[str, Kind] = {
    "totals": Kind(
        "upsert",
        (
            "SELECT customer, sum(amount) AS total, count(*) AS n FROM orders GROUP BY customer",
            "SELECT customer, sum(amount) AS total, count(*) AS n FROM orders WHERE amount > 10 GROUP BY customer",
            "SELECT customer, sum(amount) AS total, count(*) AS n FROM orders GROUP BY customer HAVING count(*) > 2",
            "SELECT customer, sum(amount) AS total, count(*) AS n, max(amount) AS top FROM orders GROUP BY customer",
        ),
        key="customer",
        columns=(0, 0, 0, 1),
        sources=("orders",),
        stays=True,
    ),
    "large": Kind(
        "changelog",
        (
            "SELECT customer, total FROM {totals} WHERE total > 60",
            "SELECT customer, total FROM {totals} WHERE total > 120",
            "SELECT customer, total + 1 AS total FROM {totals}",
            "SELECT customer, total, n FROM {totals} WHERE n > 1",
        ),
        columns=(0, 0, 0, 1),
        reads=("totals",),
    ),
    "by_country": Kind(
        "upsert",
        (
            "SELECT country, max(n) AS top, count(*) AS c FROM clicks LEFT JOIN people USING (customer) GROUP BY country",
            "SELECT country, max(n) AS top, count(*) AS c FROM clicks JOIN people USING (customer) GROUP BY country",
            "SELECT country, max(n) AS top, count(n) AS c FROM clicks FULL JOIN people USING (customer) GROUP BY country",
            "SELECT country, min(n) AS top, count(*) AS c FROM clicks RIGHT JOIN people USING (customer) GROUP BY country",
        ),
        key="country",
        sources=("clicks", "people"),
        stays=True,
    ),
    "strangers": Kind(
        "changelog",
        (
            "SELECT customer, page, n FROM clicks c WHERE NOT EXISTS (SELECT 1 FROM people p WHERE p.customer = c.customer)",
            "SELECT customer, page, n FROM clicks WHERE customer NOT IN (SELECT customer FROM people WHERE country <> 'A')",
            "SELECT customer, page, n FROM clicks c WHERE EXISTS (SELECT 1 FROM people p WHERE p.customer = c.customer)",
        ),
        sources=("clicks", "people"),
    ),
    "dearest": Kind(
        "upsert",
        (
            "SELECT id, customer, amount FROM orders ORDER BY amount DESC, id LIMIT 5",
            "SELECT id, customer, amount FROM orders ORDER BY amount DESC, id LIMIT 8 OFFSET 1",
            "SELECT id, customer, amount FROM orders WHERE customer <> 'c1' ORDER BY amount, id LIMIT 5",
        ),
        key="id",
        sources=("orders",),
    ),
    "ranked": Kind(
        "changelog",
        (
            "SELECT id, customer, row_number() OVER (PARTITION BY customer ORDER BY amount DESC, id) AS place FROM orders",
            "SELECT id, customer, count(*) OVER (PARTITION BY customer) AS place FROM orders",
            "SELECT id, customer, sum(amount) OVER (PARTITION BY customer ORDER BY id ROWS 1 PRECEDING) AS place FROM orders",
        ),
        sources=("orders",),
    ),
    "pages": Kind(
        "append",
        (
            "SELECT DISTINCT page FROM clicks WHERE n > 20",
            "SELECT DISTINCT page FROM clicks",
            "SELECT DISTINCT page FROM clicks WHERE n > 45",
        ),
        sources=("clicks",),
    ),
    "heavy": Kind(
        "append",
        (
            "SELECT customer, n FROM STREAM clicks WHERE n > 30",
            "SELECT customer, n FROM STREAM clicks WHERE n > 20",
            "SELECT customer, n FROM STREAM clicks WHERE n > 40",
            "SELECT customer, n + 1 AS n FROM STREAM clicks WHERE n > 30",
        ),
        sources=("clicks",),
        is_streaming=True,
    ),
    "counted": Kind(
        "append",
        tuple(COUNTED.format(delay=delay, width=width) for delay, width in WINDOWS),
        sources=("ticks",),
        is_streaming=True,
    ),
    "initials": Kind("upsert", ("1", "2", "3"), key="who", sources=("orders",), is_python=True),
    "zoned": Kind(
        "upsert",
        (
            "SELECT zone, sum(n) AS n FROM clicks JOIN (SELECT _c0 AS page, _c1 AS zone FROM csv.`ZONES`) z USING (page) GROUP BY zone",
            "SELECT zone, sum(n) AS n FROM clicks LEFT JOIN (SELECT _c0 AS page, _c1 AS zone FROM csv.`ZONES`) z USING (page) GROUP BY zone",
            "SELECT _c1 AS zone, count(*) AS n FROM csv.`ZONES` GROUP BY _c1",
        ),
        key="zone",
        sources=("clicks",),
    ),
    "ratios": Kind(
        "upsert",
        (
            "SELECT customer, 120 DIV sum(n) AS ratio, count(*) AS c FROM moves GROUP BY customer",
            "SELECT customer, 240 DIV sum(n) AS ratio, count(*) AS c FROM moves GROUP BY customer",
            "SELECT customer, CASE WHEN sum(n) <> 0 THEN 120 DIV sum(n) END AS ratio, count(*) AS c FROM moves GROUP BY customer",
        ),
        key="customer",
        sources=("moves",),
    ),
    "most": Kind(
        "changelog",
        ("SELECT count(*) AS c, max(ratio) AS most FROM {ratios}", "SELECT count(*) AS c, min(ratio) AS most FROM {ratios}"),
        reads=("ratios",),
    ),
    "countries": Kind(
        "upsert",
        (
            "SELECT country, count(*) AS people FROM people GROUP BY country",
            "SELECT country, count(*) AS people FROM people WHERE customer <> 'c3' GROUP BY country",
            "SELECT country, count(*) AS people, max(customer) AS last FROM people GROUP BY country",
        ),
        key="country",
        columns=(0, 0, 1),
        sources=("people",),
        format="avro",
    ),
    "kept": Kind(
        "none",
        (
            "SELECT count(DISTINCT customer) AS n, max(amount) AS top FROM orders",
            "SELECT count(DISTINCT customer) AS n, min(amount) AS top FROM orders",
        ),
        sources=("orders",),
    ),
    "spent": Kind(
        "upsert",
        (
            "SELECT customer, sum(amount) AS amount, count(*) AS c FROM (SELECT DISTINCT customer FROM clicks) JOIN sales USING (customer) "
            "GROUP BY customer",
            "SELECT customer, sum(amount) AS amount, count(*) AS c FROM sales GROUP BY customer",
        ),
        key="customer",
        sources=("clicks", "sales"),
    ),
    "sold": Kind(
        "changelog",
        (
            "SELECT count(*) AS n, sum(amount) AS total FROM sales",
            "SELECT count(*) AS n, max(amount) AS total FROM sales",
        ),
        sources=("sales",),
    ),
    "others": Kind(
        "changelog",
        (
            "SELECT customer FROM people EXCEPT SELECT customer FROM {totals}",
            "SELECT customer FROM people INTERSECT SELECT customer FROM {totals}",
            "SELECT customer FROM people UNION ALL SELECT customer FROM {totals}",
        ),
        reads=("totals",),
        sources=("people",),
    ),
    "rich": Kind(
        "upsert",
        (
            "SELECT id, customer FROM orders WHERE amount > (SELECT avg(amount) FROM orders)",
            "SELECT id, customer FROM orders WHERE amount * 5 > (SELECT avg(total) FROM {totals})",
            "SELECT id, customer FROM orders WHERE id IN (SELECT n FROM clicks)",
        ),
        key="id",
        reads=("totals",),
        sources=("orders", "clicks"),
    ),
    "pairs": Kind(
        "changelog",
        (
            "SELECT a.id AS one, b.id AS other FROM orders a JOIN orders b ON a.customer = b.customer AND a.amount = b.amount AND a.id < b.id",
            "SELECT a.id AS one, b.id AS other FROM orders a LEFT JOIN orders b "
            "ON a.customer = b.customer AND a.amount = b.amount AND a.id < b.id",
        ),
        sources=("orders",),
    ),
    "notes": Kind(
        "upsert",
        ("SELECT note, count(*) AS c FROM orders GROUP BY note", "SELECT note, count(customer) AS c FROM orders GROUP BY note"),
        key="note",
        sources=("orders",),
    ),
    "pageless": Kind(
        "changelog",
        (
            "SELECT s.customer, s.c, t.total FROM {ratios} s FULL JOIN {totals} t ON s.customer = t.customer",
            "SELECT s.customer, s.c, t.total FROM {ratios} s RIGHT JOIN {totals} t ON s.customer = t.customer AND s.c > 1",
        ),
        reads=("ratios", "totals"),
    ),
}  # fmt: skip
NEEDS_NOTE = "notes"

SOURCES = {
    "orders": "(id BIGINT, customer STRING, amount INT{note}) USING kafka TBLPROPERTIES ('subscribe' = '@orders', 'mode' = 'upsert', "
    "'key' = 'id')",
    "clicks": "(customer STRING, page STRING, n INT) USING kafka TBLPROPERTIES ('subscribe' = '@clicks', 'on.error' = 'dead-letter')",
    "people": "(customer STRING, country STRING) USING kafka TBLPROPERTIES ('subscribe' = '@people', 'format' = 'avro', 'mode' = 'upsert', "
    "'key' = 'customer')",
    "moves": "(customer STRING, n INT) USING kafka TBLPROPERTIES ('subscribe' = '@moves', 'mode' = 'changelog')",
    "ticks": "(at TIMESTAMP, n INT) USING kafka TBLPROPERTIES ('subscribe' = '@ticks')",
    "sales": "(customer STRING, amount INT) USING kafka TBLPROPERTIES ('subscribe' = '@sales', 'on.error' = 'skip')",
}

INITIALS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F


@@F.udf("string")
def initial(text):
    return None if text is None else text[:LENGTH].upper()


@@dp.materialized_view(name="NAME", table_properties=PROPERTIES)
def initials():
    orders = SparkSession.active().read.table("orders")
    return orders.groupBy(initial("customer").alias("who")).agg(F.count("*").alias("n"), F.max("amount").alias("top"))
"""


@dataclass(frozen=True)
class View:
    """A view of a project: its kind, which of its definitions, its name there, and its topic without the prefix; None if it has none."""

    kind: str
    query: int
    name: str
    topic: str | None

    @property
    def mode(self) -> str | None:
        return None if self.topic is None else KINDS[self.kind].mode


@dataclass(frozen=True)
class Project:
    """`views`: by kind. `has_note`: whether the orders have one more column."""

    views: Mapping[str, View]
    has_note: bool = False

    @property
    def sources(self) -> set[str]:
        return {source for kind in self.views for source in KINDS[kind].sources}

    def files(self, zones: Path) -> dict[str, str]:
        note = ", note STRING" if self.has_note else ""
        parts = [f"CREATE STREAMING TABLE {name} {SOURCES[name].format(note=note)};" for name in sorted(self.sources)]
        names = {kind: view.name for kind, view in self.views.items()}
        found = {}
        for kind, view in self.views.items():
            if KINDS[kind].is_python:
                length = KINDS[kind].queries[view.query]
                text = INITIALS.replace("LENGTH", length).replace("NAME", view.name)
                found["initials.py"] = text.replace("PROPERTIES", repr(_properties(view)))
            else:
                parts.append(_statement(view, names))
        found["project.sql"] = "\n".join(parts).replace("ZONES", str(zones))
        return found


def _properties(view: View) -> dict[str, str]:
    kind = KINDS[view.kind]
    if view.topic is None:
        return {}
    given = {"topic": f"@{view.topic}", "mode": kind.mode, "key": kind.key, "format": kind.format}
    return {name: value for name, value in given.items() if value and (name, value) != ("format", "json")}


def _statement(view: View, names: Mapping[str, str]) -> str:
    kind = KINDS[view.kind]
    what = "STREAMING TABLE" if kind.is_streaming else "MATERIALIZED VIEW"
    properties = ", ".join(f"'{name}' = '{value}'" for name, value in _properties(view).items())
    published = f" TBLPROPERTIES ({properties})" if properties else ""
    return f"CREATE {what} {view.name}{published} AS {kind.queries[view.query].format(**names)};"


@dataclass
class Drawing:
    """Draws the projects of one chain. `used`: the topics that were drawn, because a topic that an earlier revision had cannot come
    again. `columns`: of each topic the columns that it has had, by their number; a consumer can read it from its beginning if they
    change once at most."""

    chance: random.Random
    used: set[str] = field(default_factory=set)
    columns: dict[str, list[int]] = field(default_factory=dict)

    def first(self) -> Project:
        kinds = [kind for kind in KINDS if KINDS[kind].stays or self.chance.random() < 0.35]
        project = Project({})
        for kind in kinds:
            project = self._with_new(project, kind)
        return project

    def next(self, project: Project) -> tuple[Project, list[str]]:
        """Another project, and the edits. The topics that it names count as used whether it comes into force or not: a transition that was
        aborted may have made them."""
        for _ in range(100):
            made, edits = self._edited(project)
            if edits:
                return made, edits
        raise AssertionError("no edit was drawn")

    def _edited(self, project: Project) -> tuple[Project, list[str]]:
        edits: list[str] = []
        chance, made = self.chance, project
        for kind in KINDS:
            drawn, view = chance.random(), made.views.get(kind)
            if view is None:
                if drawn < 0.15:
                    with_it = self._with_new(made, kind)
                    edits += [f"new {kind}"] if kind in with_it.views else []
                    made = with_it
            elif drawn < 0.3:
                query = chance.choice([q for q in range(len(KINDS[kind].queries)) if q != view.query])
                made = self._with(made, replace(view, query=query))
                edits.append(f"change {kind}")
            elif drawn < 0.36 and not KINDS[kind].stays:
                made = without(made, kind)
                edits.append(f"drop {kind}")
            elif drawn < 0.42:
                made = self._with(made, replace(view, name=_other_name(view.name)))
                edits.append(f"rename {kind}")
            elif drawn < 0.46 and view.topic is not None:
                made = self._with(made, replace(view, topic=self._topic(kind)))
                edits.append(f"move {kind}")
            elif drawn < 0.48 and KINDS[kind].mode not in ("append", "none"):
                made = self._with(made, replace(view, topic=None if view.topic else self._topic(kind)))
                edits.append(f"publish {kind}")
        return made, edits

    def _with_new(self, project: Project, kind: str) -> Project:
        if any(name not in project.views for name in KINDS[kind].reads):
            return project
        if kind == NEEDS_NOTE:
            project = replace(project, has_note=True)
        query = self.chance.randrange(len(KINDS[kind].queries))
        topic = None if KINDS[kind].mode == "none" else self._topic(kind)
        return self._with(project, View(kind, query, kind, topic))

    def _with(self, project: Project, view: View) -> Project:
        """A topic whose columns would change a second time is left for another one."""
        if view.topic is not None:
            columns = KINDS[view.kind].columns_of(view.query)
            had = self.columns.setdefault(view.topic, [])
            if had and had[-1] != columns and len(had) == 2:
                view = replace(view, topic=self._topic(view.kind))
                had = self.columns.setdefault(str(view.topic), [])
            if not had or had[-1] != columns:
                had.append(columns)
        return replace(project, views={**project.views, view.kind: view})

    def _topic(self, kind: str) -> str:
        number = next(n for n in range(1, 1000) if f"{kind}{n}" not in self.used)
        self.used.add(f"{kind}{number}")
        return f"{kind}{number}"


def without(project: Project, kind: str) -> Project:
    """Also without what reads it."""
    gone = {kind}
    while more := {k for k in project.views if set(KINDS[k].reads) & gone} - gone:
        gone |= more
    return replace(project, views={k: view for k, view in project.views.items() if k not in gone})


def _other_name(name: str) -> str:
    return name.removesuffix("_renamed") if name.endswith("_renamed") else f"{name}_renamed"
