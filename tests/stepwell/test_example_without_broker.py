"""The generator of the example, against a port at which no broker answers."""

import os
import subprocess
import sys

from stepwell.project.templates import write_project

_NO_BROKER = "127.0.0.1:1"


def test_the_generator_names_the_broker_that_does_not_answer_and_how_to_name_another(tmp_path):
    write_project(tmp_path, "shop", "orders")
    done = subprocess.run(
        [sys.executable, "generate.py", "--count", "1"],
        cwd=tmp_path,
        env={**os.environ, "STEPWELL_KAFKA_BOOTSTRAP_SERVERS": _NO_BROKER},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    said = done.stderr.splitlines()
    assert len(said) == 2, done.stderr
    assert said[0].startswith(f"no Kafka broker answers at {_NO_BROKER}: ")
    assert "STEPWELL_KAFKA_BOOTSTRAP_SERVERS=HOST:PORT" in said[1]
