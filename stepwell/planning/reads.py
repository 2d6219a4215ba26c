"""The topics that definitions read by themselves, with `spark.readStream.format("kafka")`: each is a source of the pipeline.

Guarantees: readers with the same topics and columns are one source, whichever flows use them. Options that contradict each other are an error
that names both places.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import DataFrame

from stepwell.errors import Location, ProjectError
from stepwell.planning.leaves import boundary
from stepwell.project.kafka_options import LoadPlace, disagreement, reader_spec, starts_alike
from stepwell.project.kafka_reader import KafkaRead, calling_line
from stepwell.project.loading import Project
from stepwell.project.tables import SourceSpec


class NotStreaming(ProjectError):
    """A query reads a stream, but it can see only plain tables."""


class Reads:
    """The topics that queries have read so far as readers of Kafka. `sources` has what was read so far, by handle. `view_now`: the view whose
    query runs, or None. `streaming_now`: whether that query is of a streaming flow; None while files are loaded, when nobody knows what a reader
    is for."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.sources: dict[str, SourceSpec] = {}
        self.view_now: Callable[[], str | None] = lambda: None
        self.streaming_now: bool | None = None

    def provide(self, read: KafkaRead) -> DataFrame:
        """The DataFrame that stands for the topics in queries. Raises ProjectError for options that are wrong or not supported."""
        location = calling_line(self._project.root) or Location(self._project.spec_file.name)
        place = LoadPlace(location, self.view_now())
        if read.has_schema:
            raise ProjectError(
                "a reader of Kafka takes no schema: its columns are fixed",
                "Leave .schema(...) out, and write from_json(cast(value AS STRING), schema).",
                view=place.view,
                location=location,
            )
        if read.streaming and self.streaming_now is False:
            raise NotStreaming(
                "a topic is read as a stream, and this is not a streaming flow",
                'Write spark.read.format("kafka"), or make this a streaming table (@dp.table).',
                view=place.view,
                location=location,
            )
        spec = self._remember(reader_spec(read.options, read.streaming, place, self._project.settings), place)
        return boundary(spec.handle, spec.schema, read.streaming, read.spark)

    def _remember(self, spec: SourceSpec, place: LoadPlace) -> SourceSpec:
        known = self.sources.setdefault(spec.handle, spec)
        if not starts_alike(spec, known):
            topics = (t for t in spec.topics if not starts_alike(replace(spec, topics=(t,)), known))
            raise disagreement(spec, known, next(topics, str(spec.pattern)), place.view)
        notes = tuple(dict.fromkeys((*known.notes, *spec.notes)))
        self.sources[spec.handle] = replace(known, notes=notes)
        return known
