#!/usr/local/bin/python
"""Becomes the JVM of an executor of Spark on Kubernetes, which starts the container with the argument `executor`.

Spark's own images have a script for that. PySpark's package has Spark's jars without it. Spark gives everything in variables.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pyspark

BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
OPTION = "SPARK_JAVA_OPT_"
ARGUMENTS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}


def command(variables: Mapping[str, str]) -> list[str]:
    """Raises KeyError for a variable that Spark always sets."""
    home, memory = variables.get("JAVA_HOME"), variables["SPARK_EXECUTOR_MEMORY"]
    numbers = sorted(int(name.removeprefix(OPTION)) for name in variables if name.startswith(OPTION))
    path = [variables.get("SPARK_EXTRA_CLASSPATH"), str(Path(pyspark.__file__).parent / "jars" / "*")]
    return [
        str(Path(home, "bin", "java")) if home else "java",
        *(variables[f"{OPTION}{number}"] for number in numbers),
        f"-Xms{memory}",
        f"-Xmx{memory}",
        *("-cp", os.pathsep.join(filter(None, path))),
        BACKEND,
        *(word for option, name in ARGUMENTS.items() for word in (option, variables[name])),
    ]


if __name__ == "__main__":
    words = command(os.environ)
    os.execvp(words[0], words)
