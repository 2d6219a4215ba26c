"""The names of the topics that belong to a pipeline, and the id that fences its writers. They follow from its name, so every command finds
them."""

from __future__ import annotations

import re


def log_topic_of(pipeline: str) -> str:
    """The step log's topic."""
    return f"stepwell.{pipeline}.steps"


def transactional_id_of(pipeline: str) -> str:
    """What fences the pipeline's writers: each run's producer has it."""
    return f"stepwell.{pipeline}"


def plan_topic_of(pipeline: str) -> str:
    """The topic of the plan documents that the step log names."""
    return f"stepwell.{pipeline}.plans"


TABLE_PARTITIONS = 8
"""Partitions of the topic of a batch table: as many workers read it at once. More would only make each step's ranges longer."""


def table_topic_of(pipeline: str, digest: str) -> str:
    """The topic through which the rows of a batch table go. `digest` stands for what is read."""
    return f"stepwell.{pipeline}.table.{digest}"


def load_topic_of(table_topic: str, load: str) -> str:
    """The topic of a load beside the steps, which is a topic of its own. `load`: its id, which no other load has."""
    return f"{table_topic}.{load}"


_TABLE_TOPIC = re.compile(r"stepwell\..+\.table\.[0-9a-f]{16}(\.[0-9a-f]+)?")


def has_rows_of_tables(topic: str) -> bool:
    """Whether this is the name of a topic of a batch table of some pipeline. No source can read its messages, so no pattern matches it."""
    return _TABLE_TOPIC.fullmatch(topic) is not None


def is_table_topic(pipeline: str, topic: str) -> bool:
    """Whether this is the name of a topic of a batch table of this pipeline. Another pipeline can have a name that begins like that."""
    pattern = rf"{re.escape(table_topic_of(pipeline, ''))}[0-9a-f]{{16}}(\.[0-9a-f]+)?"
    return re.fullmatch(pattern, topic) is not None
