"""Decodes messages that a test has as arrays."""

from __future__ import annotations

import pyarrow as pa

from base.options import Truncate
from io_kafka.formats.decode import decode as decode_records
from io_kafka.formats.spec import Decoded, SourceFormat
from io_kafka.messages import Messages, TopicMessages


def decode(
    source: SourceFormat,
    keys: pa.Array,
    values: pa.Array,
    partitions: pa.Array,
    offsets: pa.Array,
    *,
    truncate: Truncate = "fail",
) -> Decoded:
    """Of topic t, of which nothing but keys, values and offsets was read."""
    return decode_records(source, TopicMessages("t", partitions, Messages.plain(keys, values, offsets)), truncate)
