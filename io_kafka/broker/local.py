"""A real Kafka broker on this machine, as a child process that keeps all its files in one folder (node.py shows them).

Guarantees: `LocalBroker(folder).start()` returns when the broker answers, and raises otherwise. A broker that is started
again in the same folder has the same address and the same topics, also after a SIGKILL. Any process finds the broker of a
folder by its pid file (`LocalBroker.find_running`) and can stop it. A pid that the system has reused for another process is
never mistaken for the broker.

The broker is real because an emulation proves nothing about transactions.
"""

from __future__ import annotations

from pathlib import Path

from io_kafka.broker.group import BrokerGroup
from io_kafka.broker.properties import PLAIN, Secured


class LocalBroker(BrokerGroup):
    """The broker of one folder. With `port=None` the first start chooses a free port, and later starts keep it."""

    stop_command = "stepwell dev down"

    def __init__(self, folder: Path, port: int | None = None, secured: Secured = PLAIN) -> None:
        super().__init__(folder, 1, port, secured)

    @classmethod
    def find_running(cls, folder: Path) -> LocalBroker | None:
        """The broker that runs in `folder`, whichever process started it, or None."""
        broker = cls(folder)
        return broker if broker.is_running else None

    @property
    def pid(self) -> int | None:
        """The id of the broker's process; None if it does not run."""
        return self.pids[1]

    @property
    def log(self) -> Path:
        return self.nodes[1].process.log
