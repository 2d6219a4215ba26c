"""Messages <-> Arrow rows, in every format and without Kafka or Spark. Open to engine, coordinator and stepwell.

`table.py` has the descriptor of each format."""

from base.pandas_later import leave_pandas_out

leave_pandas_out()  # before any module makes an array

from io_kafka.formats.batches import TableFormat  # noqa: E402
from io_kafka.formats.decode import decode  # noqa: E402
from io_kafka.formats.encode import ENCODER_ID, encode  # noqa: E402
from io_kafka.formats.reading import values_are_text  # noqa: E402
from io_kafka.formats.records import RecordFormat  # noqa: E402
from io_kafka.formats.spec import Decoded, FormatError, OutputFormat, Rejected, SourceFormat  # noqa: E402

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
    "values_are_text",
]
