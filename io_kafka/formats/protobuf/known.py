"""The types of others that messages have for dates, moments and decimals: their full names, and the files in which they are declared.

Google's own files come with Protobuf's compiler. The other two are as every registry that speaks Confluent's API knows them without being told,
as does Confluent's deserializer; the compiler is given them here.
"""

from __future__ import annotations

TIMESTAMP = "google.protobuf.Timestamp"
DATE = "google.type.Date"
DECIMAL = "confluent.type.Decimal"

FILES = {
    TIMESTAMP: "google/protobuf/timestamp.proto",
    DATE: "google/type/date.proto",
    DECIMAL: "confluent/type/decimal.proto",
}

TEXTS = {
    FILES[DATE]: (
        'syntax = "proto3";\npackage google.type;\nmessage Date {\n  int32 year = 1;\n  int32 month = 2;\n  int32 day = 3;\n}\n'
    ),
    FILES[DECIMAL]: (
        'syntax = "proto3";\npackage confluent.type;\n'
        "message Decimal {\n  bytes value = 1;\n  uint32 precision = 2;\n  int32 scale = 3;\n}\n"
    ),
}
"""What the compiler is given, unless a schema brings its own."""
