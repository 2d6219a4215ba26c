"""The alternatives to functions that are not supported: another function with the same answer, or nearly the same.

Only texts use this table. tests/stepwell/lowering/test_refusals.py plans each of the queries that the texts give.
"""

from __future__ import annotations

from typing import NamedTuple


class Alternative(NamedTuple):
    """What a user can write in place of a function. `query`: an expression over columns s (a text), ts (a timestamp), a and b (numbers).
    `remark`: where its answer differs."""

    query: str
    remark: str = ""

    @property
    def advice(self) -> str:
        return f"write {self.query}" + (f"; {self.remark}" if self.remark else "")


ALTERNATIVES = {
    "TimeBucket": Alternative(
        "date_trunc('HOUR', ts)", "for other lengths timestamp_seconds(floor(unix_seconds(ts) / 900) * 900)"
    ),
    "MakeInterval": Alternative(
        "ts + make_ym_interval(a, b) + make_dt_interval(a)", "make_dt_interval has days, hours, minutes and seconds"
    ),
    "MapZipWith": Alternative(
        "transform_values(map(a, s), (k, v) -> concat(v, map(a, s)[k]))",
        "add the keys that the second map has alone with map_concat",
    ),
    "ToNumber": Alternative("CAST(replace(s, ',', '') AS DECIMAL(12, 2))", "take out what is no part of a number"),
    "TryToNumber": Alternative(
        "try_cast(replace(s, ',', '') AS DECIMAL(12, 2))", "take out what is no part of a number"
    ),
    "ToCharacter": Alternative("format_number(a, 2)", "or CAST(a AS STRING)"),
    "CsvToStructs": Alternative("CAST(split(s, ',')[0] AS INT)", "quotes have no meaning there"),
    "StructsToCsv": Alternative("concat_ws(',', a, b)", "nothing is quoted, and NULLs are left out"),
    "schema_of_variant": Alternative("to_json(parse_json(s))", "its text shows what the value has"),
    "sentences": Alternative("split(s, '[^\\\\w]+')", "as one list of words"),
    "quote": Alternative("concat('\\'', replace(s, '\\'', '\\\\\\''), '\\'')"),
}
"""By the class of Catalyst's expression, or by the SQL name of a function that Spark replaces by a call of Java (java_calls.py)."""
