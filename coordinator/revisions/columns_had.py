"""Which columns the messages of each topic have had, which a plan document keeps with its outputs.

A column that goes stays in former messages. If it comes back, they would say of it what no row has any more. So the names of the columns of all
messages are kept, from the first one on, or from the last time on at which all rows were written once more (engine/analysis/topic_columns.py).
A document of a former release has the columns of its own views alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from coordinator.revisions.comparison import Comparison
from coordinator.specification import OutputTopic
from engine.analysis.topic_columns import ColumnsChange, columns_change
from engine.model.circuit import Output


def with_columns_had(outputs: Iterable[OutputTopic], before: Iterable[OutputTopic]) -> tuple[OutputTopic, ...]:
    """The outputs of a project with the columns that their topics have had until now."""
    had = {output.topic: output.columns for output in before}
    return tuple(replace(output, columns=had.get(output.topic, ())) for output in outputs)


def columns_change_of(comparison: Comparison, handle: str) -> ColumnsChange | None:
    """How the columns of an output change whose topic the previous project writes; None of another one."""
    topic, output = comparison.topics_now[handle], comparison.now.circuit.nodes[comparison.outputs[handle]]
    assert isinstance(output, Output)
    if topic not in comparison.topics_before:
        return None
    return columns_change(comparison.found, output, _had(comparison).get(topic))


def names_had(comparison: Comparison) -> dict[int, tuple[str, ...]]:
    """The names of the columns that messages of a topic have, by the index of the output now, where they are not those of the view alone."""
    had = _had(comparison)
    topics = ((i, comparison.topics_now[handle]) for handle, i in comparison.outputs.items())
    return {i: had[topic] for i, topic in topics if topic in had}


def outputs_after(comparison: Comparison) -> tuple[OutputTopic, ...]:
    """The outputs of the next revision, with the columns that their topics will have had."""
    return tuple(replace(output, columns=_after(comparison, output)) for output in comparison.now.outputs)


def _had(comparison: Comparison) -> dict[str, tuple[str, ...]]:
    return {output.topic: output.columns for output in comparison.before.outputs if output.columns}


def _after(comparison: Comparison, output: OutputTopic) -> tuple[str, ...]:
    node = comparison.now.circuit.nodes[comparison.outputs[output.handle]]
    assert isinstance(node, Output)
    change = columns_change_of(comparison, output.handle)
    had = node.names if change is None else change.had_after(node.mode)
    return () if had == node.names else had
