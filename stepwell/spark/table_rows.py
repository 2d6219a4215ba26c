"""The rows of a table that Spark reads, as Arrow batches in the driver.

Spark's own readers run in parallel, as tasks, and Spark converts the rows to Arrow. Some partitions are read at a time, so the driver holds no
more than those. Only this module uses what PySpark does not promise: `DataFrame.toArrow` collects everything at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from py4j.java_collections import ListConverter
from pyspark import SparkContext
from pyspark.serializers import NoOpSerializer
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from pyspark.util import _load_from_socket

from stepwell.spark.session import cores

BATCH_ROWS = 1024
"""Rows of one Arrow batch: those of one message (io_kafka/formats/batches.py), so that most batches need not be cut."""

SPLIT_BYTES_MAX = 16 << 20
"""Bytes of files in one partition, where a format can be split. Spark's 128 MB can be a gigabyte of rows, and the driver holds several."""

_CONF = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
    "spark.sql.files.maxPartitionBytes": str(SPLIT_BYTES_MAX),
}


def rows_of(dataset: Any, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The rows of the JVM's DataFrame `dataset`, whose columns are `schema`, in any order. Raises what Spark raises."""
    context = SparkContext._active_spark_context
    assert context is not None and context._jvm is not None
    with _conf_of(dataset):
        batches = dataset.toArrowBatchRdd().toJavaRDD()
        count = int(batches.getNumPartitions())
        arrow = to_arrow_schema(schema, timezone="UTC")
        for start in range(0, count, cores()):
            group = list(range(start, min(start + cores(), count)))
            numbers = ListConverter().convert(group, context._gateway._gateway_client)
            answer = context._jvm.PythonRDD.runJob(context._jsc.sc(), batches, numbers)
            with _load_from_socket(answer, NoOpSerializer()) as found:
                for message in found:
                    yield pa.ipc.read_record_batch(pa.py_buffer(message), arrow)


@contextmanager
def _conf_of(dataset: Any) -> Iterator[None]:
    """The conf of the dataset's session while its rows are read."""
    conf = dataset.sparkSession().conf()
    before = {key: conf.getOption(key) for key in _CONF}
    for key, value in _CONF.items():
        conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            if value.isDefined():
                conf.set(key, value.get())
            else:
                conf.unset(key)
