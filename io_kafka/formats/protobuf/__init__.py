"""Protobuf: schemas as a registry has them, and whole batches of messages -> Arrow columns."""
