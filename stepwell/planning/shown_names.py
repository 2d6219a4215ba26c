"""The names that queries see: those of sources and views, as temporary views of the session.

A name has two forms, of which one is registered at a time: the plain one, and the streaming one that only flows of streaming tables and sinks
read. Keys are lower-case names.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from base.text.type_names import quote_for_spark


class ShownNames:
    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._frames: dict[tuple[str, bool], DataFrame] = {}  # (name, streaming)
        self._shown: dict[str, bool] = {}  # name -> whether the streaming form is registered now

    def knows(self, name: str, streaming: bool) -> bool:
        return (name, streaming) in self._frames

    def register(self, name: str, streaming: bool, frame: DataFrame) -> None:
        """Makes `frame` a form of the name, and lets queries see it."""
        self._frames[name, streaming] = frame
        frame.createOrReplaceTempView(quote_for_spark(name))  # Spark parses it
        self._shown[name] = streaming

    def show(self, streaming: bool) -> None:
        """Lets queries see every name in this form. Names without it are unregistered."""
        for name in [name for name, shown in self._shown.items() if shown != streaming]:
            frame = self._frames.get((name, streaming))
            if frame is None:
                self._spark.catalog.dropTempView(name)
                del self._shown[name]
            else:
                self.register(name, streaming, frame)
