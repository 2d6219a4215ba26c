"""What to write in place of functions that are not supported, where another one has the same answer or nearly the same.

Only texts use this table. tests/stepwell/lowering/test_refusals.py plans each of the queries that the texts give.
"""

from __future__ import annotations

from typing import NamedTuple


class Instead(NamedTuple):
    """`query`: an expression over columns s (a text), ts (a timestamp), a and b (numbers). `remark`: where its answer differs."""

    query: str
    remark: str = ""

    @property
    def advice(self) -> str:
        return f"write {self.query}" + (f"; {self.remark}" if self.remark else "")


INSTEAD = {
    "TimeBucket": Instead(
        "date_trunc('HOUR', ts)", "for other lengths timestamp_seconds(floor(unix_seconds(ts) / 900) * 900)"
    ),
    "ToNumber": Instead("CAST(replace(s, ',', '') AS DECIMAL(12, 2))", "take out what is no part of a number"),
    "TryToNumber": Instead("try_cast(replace(s, ',', '') AS DECIMAL(12, 2))", "take out what is no part of a number"),
    "ToCharacter": Instead("format_number(a, 2)", "or CAST(a AS STRING)"),
    "CsvToStructs": Instead("CAST(split(s, ',')[0] AS INT)", "quotes have no meaning there"),
    "StructsToCsv": Instead("concat_ws(',', a, b)", "nothing is quoted, and NULLs are left out"),
    "schema_of_variant": Instead("to_json(parse_json(s))", "its text shows what the value has"),
    "sentences": Instead("split(s, '[^\\\\w]+')", "as one list of words"),
    "quote": Instead("concat('\\'', replace(s, '\\'', '\\\\\\''), '\\'')"),
}
"""By the class of Catalyst's expression, or by the SQL name of a function that Spark replaces by a call of Java (replaced.py)."""
