"""CSV is what Spark's from_csv says of each message; a text is itself."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from io_kafka.formats.delimited import parse_csv
from io_kafka.formats.encodings import Csv, Encoding, Text
from io_kafka.formats.spec import Decoded, SourceFormat
from tests.io_kafka.formats import messages as m
from tests.io_kafka.formats.decoding import decode

TYPES = {
    ddl: m.SPARK_TYPES[ddl]
    for ddl in ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10,2)", "DECIMAL(38,38)", "BOOLEAN", "STRING", "DATE",
                "TIMESTAMP", "TIMESTAMP_NTZ", "BINARY")
}  # fmt: skip

VALUES = [
    "1", "+1", "-1", " 1", "1 ", "01", "-0", "0", "127", "128", "-128", "-129", "32768", "2147483648", "9223372036854775807",
    "-9223372036854775809", "1.0", "1_0", "x", "\u0661", "1.5", "-1.25", "1.", ".5", "1d", "1f", "0x1p3", "1e3", "1E+2", "1e", "1e400", "1e-400",
    "3.5e38", "0.1", "-0.0", "NaN", "nan", "+NaN", "Inf", "-Inf", "inf", "+Inf", "Infinity", "-Infinity", "infinity", " NaN ", "1.005",
    "99999999.995", "1e2", "true", "TRUE", "False", "t", "yes", " true", "2024-01-02", "2024-1-2", "2024", "19000", "24-01-02", "2024-02-30",
    "2024-01-02T03", " 2024-01-02 ", "2024-01-02GMT", "2024-01-02 GMT", "0001-01-01", "-0001-01-01", "+12024-01-01", "2024-01-02 03:04:05",
    "2024-01-02T03:04:05.123456789", "2024-01-02T03:04:05Z", "2024-01-02 03:04:05+01:00", "2024-01-02 03:04:05 Europe/Paris",
    "2024-01-02 25:00:00", "17", "null", "NA", "é", "\u2603", '"1"', '" 1"', '"1,5"', '"1" ', '"2024-01-02"', '"\\""', '"a\\\\"', '"a\\b"',
    'a\\"b', "a\\", "#", "'1'", "a\nb", "a\n", "\n", "\r", "\t", "\x00", '""', "\ufeff1", "1\ufeff", '\ufeff"1"', " ",
]  # fmt: skip

RECORDS = [
    "".join(parts)
    for count in (1, 2, 3, 4)
    for parts in product(["a", '"b,"', ",", '"'] if count < 4 else ["a", ",", '"c"'], repeat=count)
] + [
    *VALUES,
    '"a" ,b',
    '"a"\t,b',
    'a,"b"\n',
    '"a\nb",c',
    "a\nb,c",
    ',"a\\"',
    '"a\\"b"c,d',
    "NA,",
    '"NA",""',
    ",",
    "a,",
    ",b",
]

STRICT = "a field that begins with a quote does not end with one"


def outcome(texts: Sequence[str], kinds: Sequence[pa.DataType], encoding: Csv) -> list[tuple[bool, list[str]]]:
    """For each message: whether it is taken, and its values; what is refused for the reason that Spark does not have is left out."""
    schema = pa.schema([(f"c{n}", kind) for n, kind in enumerate(kinds)])
    parsed = parse_csv(pa.array([text.encode() for text in texts], pa.binary()), schema, encoding)
    found: list[tuple[bool, list[str]]] = [(False, [])] * len(texts)
    columns = [m.comparable(column) for column in parsed.rows.columns]
    for number, row in enumerate(parsed.at.tolist()):
        found[row] = True, [column[number] for column in columns]
    for row, reason in parsed.faults:
        if reason == STRICT:
            found[row] = False, [STRICT]
    return found


def agree(spark: SparkSession, texts: Sequence[str], ddls: Sequence[Sequence[str]], encoding: Csv) -> None:
    """All tables of these columns in one query."""
    frame = spark.createDataFrame([(i, text) for i, text in enumerate(texts)], "i INT, t STRING").coalesce(1)
    options = {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": "bad",
        "sep": encoding.sep,
        "nullValue": encoding.null_value,
    }
    for number, ddl in enumerate(ddls):
        columns = ", ".join(f"c{n} {kind}" for n, kind in enumerate(ddl))
        frame = frame.withColumn(f"r{number}", F.from_csv("t", f"{columns}, bad STRING", options))
    answer = frame.orderBy("i").toArrow()
    for number, ddl in enumerate(ddls):
        whole = answer.column(f"r{number}").combine_chunks()
        values = [m.comparable(whole.field(n)) for n in range(len(ddl))]
        taken = [good.as_py() for good in whole.field(len(ddl)).is_null()]
        ours = outcome(texts, [TYPES[kind] for kind in ddl], encoding)
        differing = []
        for row, text in enumerate(texts):
            expected = (True, [column[row] for column in values]) if taken[row] else (False, [])
            if ours[row] != expected and ours[row] != (False, [STRICT]):
                differing.append((ddl, text, expected, ours[row]))
        assert not differing


def test_each_type_is_read_as_by_spark(spark: SparkSession) -> None:
    agree(spark, VALUES, [[ddl] for ddl in TYPES], Csv())


def test_records_are_split_as_by_spark(spark: SparkSession) -> None:
    agree(spark, RECORDS, [["STRING"], ["STRING", "STRING"], ["STRING", "INT", "STRING"]], Csv())
    agree(spark, [*RECORDS, "a;b", '"a;b";c', "a||b", "NA;NA"], [["STRING", "STRING"]], Csv(";", "NA"))


def test_few_messages_are_refused_that_spark_takes() -> None:
    """So that the comparisons above say something."""
    refused = [found == (False, [STRICT]) for found in outcome(RECORDS, [pa.string()] * 2, Csv())]
    assert sum(refused) < len(refused) / 3


def decoded(
    encoding: Encoding, schema: pa.Schema, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None
) -> Decoded:
    count = len(values)
    source = SourceFormat("t", schema, "upsert" if keys else "append", ("k",) if keys else (), (), encoding, "json")
    every = pa.array(keys or [None] * count, pa.binary()), pa.array(values, pa.binary())
    return decode(source, *every, pa.array([0] * count, pa.int32()), pa.array(range(count), pa.int64()))


def test_malformed_messages_and_why() -> None:
    schema = pa.schema([pa.field("n", pa.int32(), nullable=False), ("s", pa.string())])
    messages = [b"1,a", None, b"", b"1", b",x", b"x,y", b"\xff,a", b'1,"a"b', b'2,"b"', b"3,"]
    found = decoded(Csv(), schema, messages)
    assert found.rows.drop_columns("weight").to_pylist() == [
        {"c0": 1, "c1": "a"},
        {"c0": 2, "c1": "b"},
        {"c0": 3, "c1": None},
    ]
    assert [(rejected.offset, rejected.reason) for rejected in found.rejected] == [
        (1, "empty"), (2, "empty"), (3, "it does not have 2 fields, one for each column"), (4, "column n: null, but declared NOT NULL"),
        (5, "column n: 'x' is not int32"), (6, "a text that is not UTF-8"), (7, STRICT),
    ]  # fmt: skip


def test_text_and_bytes() -> None:
    found = decoded(Text(), pa.schema([("value", pa.string())]), ["é\n{".encode(), b"", None, b"\xff"])
    assert found.rows.column(0).to_pylist() == ["é\n{", "", None]
    assert [rejected.reason for rejected in found.rejected] == ["a text that is not UTF-8"]
    assert decoded(Text(), pa.schema([("v", pa.binary())]), [b"\xff", None]).rows.column(0).to_pylist() == [
        b"\xff",
        None,
    ]
    keyed = decoded(Text(), pa.schema([("k", pa.int64()), ("v", pa.string())]), [b"a", None], [b"1", b"2"])
    assert [tuple(row.values())[:3] for row in keyed.rows.to_pylist()] == [(1, "a", False), (2, None, True)]


def test_csv_with_a_key() -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
    found = decoded(Csv(), schema, [b"1,a", None, b"3,c"], [b"1", b"2", b"4"])
    assert [tuple(row.values())[:3] for row in found.rows.to_pylist()] == [(1, "a", False), (2, None, True)]
    assert [rejected.reason for rejected in found.rejected] == ["column k: 4 in the message's key, 3 in its value"]
