"""Messages <-> Arrow rows, in every format and without Kafka or Spark. Open to engine, coordinator and stepwell.

`table.py` has the descriptor of each format."""

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
