"""Avro: schemas, whole batches of messages -> Arrow columns, and Arrow columns -> messages. Nothing is done message by message."""
