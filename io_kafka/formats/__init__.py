"""JSON messages <-> Arrow rows, as Spark's `from_json` and `to_json` convert them. It uses neither Kafka nor Spark."""

from io_kafka.formats.batches import TableFormat
from io_kafka.formats.decode import decode
from io_kafka.formats.encode import ENCODER_ID, encode
from io_kafka.formats.records import RecordFormat
from io_kafka.formats.spec import Decoded, FormatError, OutputFormat, Rejected, SourceFormat

__all__ = [
    "ENCODER_ID",
    "Decoded",
    "FormatError",
    "OutputFormat",
    "RecordFormat",
    "Rejected",
    "SourceFormat",
    "TableFormat",
    "decode",
    "encode",
]
