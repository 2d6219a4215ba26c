"""The first hour of a stranger with both wheels, outside the repository: the project of `stepwell init`, from `doctor` to `query`.

python -m tests.dist.trial FOLDER       FOLDER is what build.py has made

The second run is by the wheel without extensions. It goes on with the state of the first. The folders have spaces in their names.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from io_kafka.broker.local import LocalBroker
from tests.dist.environment import Environment

ORDERS = 300


def main(folder: Path) -> None:
    (pure,) = folder.glob("*-none-any.whl")
    wheel = next(path for path in sorted(folder.glob("*.whl")) if path != pure)
    with tempfile.TemporaryDirectory(prefix="stepwell trial ") as name:
        environment = Environment(Path(name) / "environment", wheel)
        environment.run(Path(name), "stepwell", "--version")
        environment.run(Path(name), "stepwell", "init", "orders")
        broker = LocalBroker(Path(name) / "broker")
        broker.start(die_with_parent=True)
        try:
            first_hour(environment, Path(name) / "orders", broker.bootstrap_servers, pure)
        finally:
            broker.stop()


def first_hour(environment: Environment, project: Path, servers: str, pure: Path) -> None:
    environment.variables["STEPWELL_KAFKA_BOOTSTRAP_SERVERS"] = servers
    environment.run(project, "python", "send.py", str(ORDERS), servers)
    environment.run(project, "stepwell", "doctor")
    environment.run(project, "stepwell", "dry-run")
    environment.run(project, "stepwell", "run", "--available-now")
    environment.install(pure)
    assert "not natively" in environment.run(project, "stepwell", "doctor")
    environment.run(project, "python", "send.py", str(ORDERS), servers)
    environment.run(project, "stepwell", "run", "--available-now")
    asked = environment.run(project, "stepwell", "query", "SELECT sum(orders) AS n FROM sales_by_country", "--json")
    assert json.loads(asked)["rows"] == [{"n": 2 * ORDERS}], f"other orders than were sent: {asked}"


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
