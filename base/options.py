"""The values of a table's options that say how the table is read or written."""

from __future__ import annotations

from typing import Literal

Mode = Literal["append", "upsert", "changelog"]
"""What a message means for the rows of a table: of a source when it is read, of an output when it is written."""

OutputFormatName = Literal["json", "avro", "protobuf", "csv", "text"]
"""What the messages of an output are written as."""

OutputKeyFormat = Literal["json", "avro", "protobuf", "string", "long", "int"]
"""How the key of a message is written: as a source with the same `key.format` reads it."""

WITHOUT_NULL: frozenset[OutputKeyFormat] = frozenset({"string", "long", "int"})
"""The formats of Kafka's own serializers, whose keys have no form for a NULL."""

OnError = Literal["fail", "skip", "dead-letter"]
"""What is done with a malformed message of a source."""

Truncate = Literal["fail", "apply", "ignore"]
"""What is done with the message by which Debezium says that a table was truncated (op t): it is malformed, all rows of the table are deleted,
or it is left out and counted."""

UNAVAILABLE_VALUE = "__debezium_unavailable_value"
"""What Debezium writes in place of a value that the database did not send, unless its property unavailable.value.placeholder names another
text."""
