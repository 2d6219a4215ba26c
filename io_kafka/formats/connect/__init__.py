"""Kafka Connect's schemas: what a value is by the schema that comes with it, and how it becomes a column of the declared type.

types         a schema as plain data, from the text that JsonConverter writes
json_schema   the same from a JSON Schema of a registry
leaves        a type without parts -> what its values mean
casts         such a value -> the declared type, as Spark's CAST does, for a whole column at once
conversion    a type of any depth and a column's type -> how JSON is read and how it is converted
wrapper       messages {"schema": ..., "payload": ...} -> their schemas and payloads
read          a batch of messages, among which some are wrapped -> rows
"""
