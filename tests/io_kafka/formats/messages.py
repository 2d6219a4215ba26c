# ruff: noqa: E501 (tables of messages: more readable in long lines)
"""Spark's own verdict on messages, and curated messages on which readers of JSON disagree."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from base.text.months import MONTH, YEAR, YEAR_TO_MONTH

SPARK_TYPES: dict[str, pa.DataType] = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DECIMAL(10,2)": pa.decimal128(10, 2),
    "DECIMAL(38,0)": pa.decimal128(38, 0),
    "DECIMAL(38,38)": pa.decimal128(38, 38),
    "BOOLEAN": pa.bool_(),
    "STRING": pa.string(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "BINARY": pa.binary(),
    "INTERVAL DAY TO SECOND": pa.duration("us"),
    "INTERVAL YEAR TO MONTH": YEAR_TO_MONTH,
    "INTERVAL YEAR": YEAR,
    "INTERVAL MONTH": MONTH,
    "STRUCT<b:INT,c:STRING,d:DATE,e:DOUBLE>": pa.struct(
        [("b", pa.int32()), ("c", pa.string()), ("d", pa.date32()), ("e", pa.float64())]
    ),
    "ARRAY<TIMESTAMP>": pa.list_(pa.field("element", pa.timestamp("us", "UTC"))),
    "ARRAY<STRUCT<b:INT,x:BINARY>>": pa.list_(pa.field("element", pa.struct([("b", pa.int32()), ("x", pa.binary())]))),
    "ARRAY<ARRAY<FLOAT>>": pa.list_(pa.field("element", pa.list_(pa.field("element", pa.float32())))),
}

NUMBERS = (
    """
1|-0|0|1.0|1e2|-0.0|"1"|""|" 1 "|127|128|255|256|-128|-129|32767|32768|-32768|-32769|2147483647|2147483648|-2147483649
9223372036854775807|9223372036854775808|-9223372036854775808|-9223372036854775809|NaN|INF|Infinity|-INF|-Infinity|+INF|+Infinity|Inf|-Inf|-NaN|nan
"NaN"|"INF"|"+INF"|"-INF"|"Infinity"|"-Infinity"|"+Infinity"|"nan"|1e400|-1e400|1e-400|-1e-400|1e39|-1e39|3.4028235677973366e38|3.4028235e38|1e-46|1.4e-45
4.9e-324|2.4703282292062327e-324|true|null|{}|[]|[1]|01|+1|.5|5.|1.|1e|1.005|1.004999|-1.005|"1.005"|" 1.5"|"1e3"|"1,000"|",1"|"abc"|"."|"1_0"|"0x1"
"1."|".5"|"+1"
123456789012345678901234567890|1.00000017881393432617187499|1.000000178813934326171875|16777217|9007199254740993|1.5E+3|-|--1|0x10|1_0|1f|1d
99999999.99|99999999.994
99999999.995|99999999999999999999999999999999999999|100000000000000000000000000000000000000|0.00000000000000000000000000000000000001
0.000000000000000000000000000000000000005
1e-38|1e37|1E38|12345678901234567890123456789012345678.4|0.1|0.30000000000000004|"١"|"1e-999999999999"|1e-999999999999|"Infinite"|0.5|-0.25|"+5"|2
421249166674228746791672110734681729275580381602196445017243910144|12345678901234567890123456789012345678901234567890|1e60|"1e75"|0e50|2e-3|9.999999e6|1e7
""".replace("\n", "|")
    .strip("|")
    .split("|")
)

STRINGS = [
    '"x"', "1.50", "1e2", "true", "false", "null", '{"b": 1,  "c":[1, 2]}', '[1, "x"]', "NaN", "'x'", '"\\u0041"', '"\\ud83d\\ude00"',
    '"\\ud800"', '["\\ud800", {"\\udfaa": "\\uDd1ea\\ud83d\\ude00"}]', '"\\ud800x"', '"\\udc00\\ud800"', '"\\x"', '"\\\'"', '"a\tb"', '"a\nb"', '"\x00"', '"\\u0000"', '"\\u00e9é😀"',
    "{\"b\":'1'}", "-Infinity", '""', '{"b":01}', "[1,]", '"\\/\\b\\f\\n\\r\\t\\\\\\""', '{"a":"\\u0041\\u001f\x7f"}', "[ ]", "-0", "-0.0",
    "1E400", "'it\"s'", "'it\\'s'", '"Inf"', '",Inf"', '":-NaN"', '"}{"', '"{"', '{"b":{"b":{}},"b":[[],{}]}', "[1.0,1e3,100000000000000000000]",
    '"\\u12"', '"\\uD83D\\u0041"', "tru", "nul", '"unclosed', '{"b":1,"c":null,"d":"2024-01-02","e":1}', '{"b":"x"}', '{"B":1}', '{"b":1,"b":2}',
    '[{"b":1},null,{}]', '[{"b":1,"x":"AQI="},{"x":"AQ"}]', '["2024-01-02",null,"2024-02-30"]', '["2024-01-02","2024-01-02T03:04:05Z"]',
    "[[1.5,null],null,[]]", "[[1e39]]", "[[-0]]", '[["NaN"]]', "[null]", '{"e":-0}', '{"d":"x"}', '{"d":"2024-1-1"}', '{"z":Inf}',
]  # fmt: skip

TIMES = """
2024-01-02|2024|2024-1|2024-1-2|2024-01-02 03:04:05|2024-01-02T03:04:05Z|2024-01-02T03:04:05.123456789Z|2024-01-02 03:04:05.1|2024-01-02 03:04
2024-01-02 03|2024-01-02 3:4:5
2024-01-02T|2024-01-02 | 2024-01-02 |2024-01-02T03:04:05+01:00|2024-01-02T03:04:05+1:0|2024-01-02T03:04:05+01|2024-01-02T03:04:05+0100
2024-01-02 03:04:05 +01:00
2024-01-02 03:04:05 UTC|2024-01-02 03:04:05 Europe/Paris|2024-01-02 03:04:05Europe/Paris|2024-01-02 03:04:05 GMT+1|2024-01-02T03:04:05GMT+01:00
2024-01-02T03:04:05 PST
2024-01-02T03:04:05 EST|2024-01-02T03:04:05z|2024-01-02t03:04:05|epoch|now|2024-02-30|2024-02-29|2023-02-29|1900-02-29|2000-02-29|2024-02-30 00:00:00
2024-01-02 24:00:00
2024-01-02 23:59:60|2024-01-02 23:60:00|0000-01-01|0000-02-29|0001-01-01 00:00:00|9999-12-31 23:59:59.999999|10000-01-01|294247-01-10 04:00:54.775807
294247-01-10 04:00:54.775808
-0001-01-01|-290308-12-21 19:59:05.224192|-290308-12-21 19:59:05.224191|+2024-01-02|20240102|19000|100|-5|1700000000|-200000|-719529|-1000000
2147483648||2024-01-02 03:04:05.12345678901
2024-01-02 03:04:05.|2024-01-02 03:04:05.Z|2024-01-02 03:04:05.1.2|2024-01-02 03:04:05,123|2024/01/02|1969-12-31 23:59:59.999999|1500-01-01 00:00:00
2024-01-02T03:04:05-00:00
2024-01-02T03:04:05+18:00|2024-01-02T03:04:05+18:01|2024-01-02T03:04:05+19:00|2024-01-02T03:04:05+01:60|2024-01-02T03:04:05+01:00:30
2024-01-02T03:04:05+010030|2024-01-02T03:04:05+01:0030
2024-01-02T03:04:05+0100:30|2024-01-02T03:04:05+1|2024-01-02T03:04:05+100|2024-01-02 xyz|2024-01-02Txyz|2024-01-02x|\\u00a02024-01-02
\\t2024-01-02\\n|\\u00002024-01-02|\\u007f2024-01-02
2024-03-31 02:30:00 Europe/Paris|2024-10-27 02:30:00 Europe/Paris|2024-01-02T03:04:05UTC+1|2024-01-02T03:04:05UT|2024-01-02T03:04:05 UT+01:00
100000-01-01|1000000-01-01|10000000-01-01
5881580-07-11|5881580-07-12|-5877641-06-23|-5877641-06-22|12-01-01|2024-013-01|2024-13-01|2024-00-01|2024-01-00|2024-01-02T03:04:05 Z
2024-01-02 03:04:05Z |2024-1-2T3:4:5.6Z
2024-01-02T03:04:05 utc|2024-01-02T03:04:05 europe/paris|2024-01-02T03:04:05 Foo/Bar|2024-01-02T03:04:05 +1|2024-01-02T03:04:05+1:00
2024-01-02T03:04:05+01:0|2024-01-02T03Z|2024-01-02T03:04Z
2024-01-02Z|2024-01-02T03:|2024-01-02T03:04:05.123Z|2024-01-02T03:04:05.123456|2024-01-02T03:04:05.12x|2024-01-02T03:04:05.1234567
2024-01-02T03:04:05.1234567x|2024GMT-01-02|2024-01-02GMT
2024-01-02 03:04:05 GMT0|2024-01-02 03:04:05 ROC|2024-01-02 03:04:05 EST5EDT|2024-01-02 03:04:05 US/Pacific|2024-01-02 03:04:05 posix/UTC
2024-01-02 03:04:05 ROK|2024-01-02 03:04:05 Factory
1800-01-02 03:04:05 Europe/Paris|-0100-01-02 03:04:05 Europe/Paris|20000-07-02 03:04:05 Europe/Paris|1911-03-10 23:58:00 Europe/Paris
2024-01-02 03:04:05 MIT|2024-01-02 03:04:05 Etc/GMT+5
1582-10-04|1582-10-10|1582-10-15|1 02:03:04.5|INTERVAL '1 02:03:04.5' DAY TO SECOND|INTERVAL '-1 02:03:04' DAY TO SECOND|-1 02:03:04.123456
INTERVAL -'1 02:03:04.5' DAY TO SECOND|PT1S|1
INTERVAL -'-1 02:03:04.5' DAY TO SECOND|interval '1 02:03:04' day to second|1 24:00:00|1 02:03:04.1234567|106751991 04:00:54.775807
106751992 04:00:54.775807|1 2:3:4|AQI=|AQI|AQID|A Q\\nI=|*|AQ==|AQ=|A|AR==|_-__|AQI=AQI=
AQI= |AQID\\u0020| AQID|AQ\\u0020ID|=|AQ|+/+/|====|A===|AQ=I|AQI=AQ==|AQID AQID|é===|AAAé
""".strip("\n").replace("\n", "|").split("|")  # fmt: skip

TIMES += [
    "|1 02:03:04", "INTERVAL |'|1 02:03:04' DAY TO SECOND", "-|1 02:03:04", "\\u00a01 02:03:04", "\\u007f1 02:03:04", "+1 02:03:04", "1\\t02:03:04",
    "1-2", "-1-11", "1-12", "INTERVAL '1-2' YEAR TO MONTH", "INTERVAL -'|178956970-8' year to month", "3", "INTERVAL '-3' YEAR", "INTERVAL '14' MONTH",
    "INTERVAL  -  '1 02:03:04' DAY TO SECOND", "INTERVAL\\u00a0'1 02:03:04' DAY TO SECOND", "INTERVAL\\u000b'1 02:03:04' DAY TO SECOND",
    "\\u0131nterval '1 02:03:04' day to second", "1 02:03:04' DAY TO SECOND", "INTERVAL '1 02:03:04", "000000001 02:03:04", "0000000001 02:03:04",
    "9" * 5000 + " 00:00:00", "-106751991 04:00:54.775808", "-106751991 04:00:54.775809", "GMT2024-01-02GMT", "GMTGMT", "1" * 5000,
]  # fmt: skip

VALUES = NUMBERS + STRINGS + [f'"{text}"' for text in TIMES] + ["1700000000", "-1", "9223372036854", "1700000000.5"]

WHOLE: list[bytes] = [
    text.encode()
    for text in (
        "{}", " {} ", "null", "null{}", "1{}", "null\n{}", "1", "[]", '[{"a":1}]', "[1]", '{"a":1', '{"a":1,}', '{"a":1,"a":2}', '{"a":"x","a":2}', '{"a":2,"a":"x"}',
        '{"a":null,"a":2}', '{"a":2,"a":null}', "{'a':1}", "{a:1}", '/*c*/{"a":1}', '\ufeff{"a":1}', '{"a":1,"x":01}', '{"a":1,"x":NaN}',
        '{"a":1,"x":tru}', '{"a":1,"x":' + "[" * 999 + "]" * 999 + "}", '{"a":1,"x":' + "[" * 1000 + "]" * 1000 + "}",
        '{"a":1,"x":' + "[" * 100_000 + "]" * 100_000 + "}", '{"x":' * 100_000 + "1" + "}" * 100_000,
        '{"a":1,"x":' + "1" * 1000 + "}", '{"a":1,"x":' + "1" * 1001 + "}", '{"a":1,"x":1.' + "1" * 998 + "}", '{"a":1,"x":1.' + "1" * 1001 + "}",
        '{"a"\n:\r\t1}', '{"a"\x0b:1}', '{"a":\xa01}', '"x"', '{"\\u0061":1}', '{"A":1}', '{"a":1 "b":2}', '{"a" 1}', '{"a":1,"x":"\\ud800"}',
        '{"a":1,"x":"\\q"}', '{"a":1,"x":"\t"}', "x", "nul", '{"x":{"a":[1,}},"a":1}', '{"' + "n" * 50_001 + '":1,"a":1}',
        '{"' + "n" * 50_000 + '":1,"a":1}', '{"a":1,"x":1e999999999999}', '{"a":1,"x":+1}', '{"a":1,"x":-INF}', '{"a":1,"x":.5}', '{"a":"x"',
        '{"a":"x", ', '{"x":"x', '{"a":1,"x":Inf}', '{"a":1,"x":[-Inf]}', '{"a":1,"x":[1, -NaN]}', '{"a":1,"x":-Infinity}', '{"a":1,"x":Infinity}',
        '{"a":1,"x":", Inf"}', '{"a":1,"":1,"":2}', '{"a":1,"x":1,"x":"2"}', '{"a":1,"x":{"y":1,"y":2}}', '{"a":1]', '["a"}', "{'a':1,\"x\":'}'}", "{",
        '{"x":"}', '{"}', '{"a":1,"x":', '{"a":1,"x":{}', '{"a":1,"x":"}', '{"a":"\\', '{"a":{"b":1}}', '{"a":-}', "{,}", '{"a":}', '{:1}', '{"a":1,,"b":1}',
    )
] + [
    b'{"a":1,"x":"\xff"}', b'{"a":1,"\xff":2}', b'\xff{"a":1}', b'{"a":1,"x":"\xed\xa0\x80"}', b'{"a":1\xff}', b'\xef\xbb\xbf{"a":1}',
]  # fmt: skip

RAW_UTF8: list[bytes] = [
    b'{"a":"' + raw + b'"}'
    for raw in (
        b"\xff", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xf0\x9f\x98x", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\xf8\x88\x80\x80\x80",
        b"\xe0\x80\x80", b"\xed\xa0\x80\xed\xb0\x80", b"\xed\xa0", b"\xed\xa0x", b"\xf0\x80\x80\x80", b"\xf0", b"\xe2", b"\xc3", b"\x80\x80",
        b"\xef\xbf\xbd", b"\xf4\x8f\xbf\xbf", b"\xf5\x80\x80\x80", b"\xe2\x28\xa1", b"\xf0\x28\x8c\xbc",
    )
]  # fmt: skip

# Trailing content: from_json looks no further than the object's end; we refuse. In a block they are the dangerous ones.
TRAILING: list[bytes] = [
    b'{"a":1}x', b'{"a":1}{"a":2}', b'{"a":1} {"a":2}', b'{"a":1}null{}', b'{"a":1}{}{}', b'{"a":1}}', b'{"a":1}]', b'{"a":1}\x00}', b'{"a":1}\n{"a":2}',
    b'{"a":1}"}"}', b'{"a":1}[{}]{}', b'{"a":1}//}', b'{"a":1}\xff', b'{"a":1}null',
]  # fmt: skip
EMPTY: list[bytes | None] = [b"", b" ", b"\n", None]


def from_json(spark: SparkSession, ddl: str, messages: Sequence[bytes]) -> tuple[list[bool], pa.Array]:
    """For each message: whether Spark takes it, and its value of column `a`. One query."""
    schema = StructType([StructField("i", IntegerType()), StructField("v", BinaryType())])
    rows = spark.createDataFrame([(i, bytearray(m)) for i, m in enumerate(messages)], schema)
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "corrupt"}
    read = rows.select("i", f.from_json(f.expr("string(v)"), f"a {ddl}, corrupt STRING", options).alias("r"))
    is_months = SPARK_TYPES.get(ddl) in (YEAR_TO_MONTH, YEAR, MONTH)  # Arrow's type for them is unknown to pyarrow
    a = "cast(cast(cast(r.a as interval month) as int) as bigint) as a" if is_months else "r.a"
    answer = read.selectExpr("i", "r is not null and r.corrupt is null ok", a).toArrow().sort_by("i")
    values = answer.column("a").combine_chunks()
    return answer.column("ok").to_pylist(), values.view(SPARK_TYPES[ddl]) if is_months else values


def comparable(values: pa.Array) -> list[str]:
    """One text a value; texts are equal exactly if the values are (NaN equals itself, -0.0 is not 0.0)."""
    return [repr(value) for value in values.cast(_plain(values.type)).to_pylist()]


def _plain(kind: pa.DataType) -> pa.DataType:
    """Python has no date before year 1 or after 9999: days and microseconds are compared as integers."""
    if pa.types.is_struct(kind):
        return pa.struct([(kind.field(i).name, _plain(kind.field(i).type)) for i in range(kind.num_fields)])
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, _plain(kind.value_type)))
    if pa.types.is_date(kind):
        return pa.int32()
    return pa.int64() if pa.types.is_temporal(kind) else kind
