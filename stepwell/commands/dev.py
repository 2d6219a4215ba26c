"""`stepwell dev up` and `dev down`: a local Kafka broker to try things with. There is one per user, in a folder of the user's cache.
`stepwell dev cluster` is in dev_cluster.py, `dev produce` and `dev consume` are in dev_messages.py."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated

import typer

from io_kafka.broker.local import LocalBroker
from io_kafka.broker.node import HOST
from stepwell.commands import dev_cluster, dev_messages
from stepwell.commands.common import JsonOption, report_faults, show
from stepwell.commands.dev_folder import dev_folder, remember
from stepwell.project.settings import BOOTSTRAP_SERVERS_DEFAULT

app = typer.Typer(help="A local Kafka broker, for trying things.", no_args_is_help=True, add_completion=False)
app.add_typer(dev_cluster.app, name="cluster")
app.command()(dev_messages.produce)
app.command()(dev_messages.consume)

PORT_DEFAULT = int(BOOTSTRAP_SERVERS_DEFAULT.rsplit(":", 1)[1])

FolderOption = Annotated[
    Path | None, typer.Option("--folder", help="Where the broker lives, if not in the user's cache.")
]


@app.command()
def up(
    folder: FolderOption = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Its port, where the folder is new.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Start the local broker, if it does not run."""
    with report_faults(as_json):
        place = folder or dev_folder()
        broker = LocalBroker.find_running(place)
        started = broker is None
        if broker is None:
            broker = LocalBroker(place, _port(place, port)).start()
            if folder is not None:
                remember(folder)
        servers = broker.bootstrap_servers
        text = f"the local broker {'is up' if started else 'runs'} at {servers} (process {broker.pid})"
        if servers != BOOTSTRAP_SERVERS_DEFAULT:
            text += (
                f"\nset it in spark-pipeline.yml, configuration: kafka.bootstrap.servers: {servers}"
                f"\nor in the environment: export STEPWELL_KAFKA_BOOTSTRAP_SERVERS={servers}"
            )
        found = {"bootstrap_servers": servers, "pid": broker.pid, "folder": str(place), "started": started}
        show(found, as_json=as_json, text=text)


@app.command()
def down(folder: FolderOption = None, as_json: JsonOption = False) -> None:
    """Stop the local broker; its topics are there again at the next `dev up`."""
    with report_faults(as_json):
        place = folder or dev_folder()
        broker = LocalBroker.find_running(place)
        if broker is not None:
            broker.stop()
        text = "no local broker runs" if broker is None else "the local broker is stopped"
        show({"stopped": broker is not None, "folder": str(place)}, as_json=as_json, text=text)


def _port(folder: Path, wanted: int | None) -> int | None:
    """The wanted port, or else the default port. None if the folder's broker has a port already, or if the default port is not free."""
    if wanted is not None or (folder / "ports.json").exists():
        return wanted
    with socket.socket() as attempt:
        try:
            attempt.bind((HOST, PORT_DEFAULT))
        except OSError:
            return None
    return PORT_DEFAULT
