"""`stepwell dev cluster up`, `down` and `status`: a cluster on this machine to try things with. There is one per user."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from io_kafka.broker.properties import GROUP_SIZES
from stepwell.commands.common import JsonOption, report_faults, show
from stepwell.commands.dev_folder import dev_cluster_folder
from stepwell.dev_cluster.cluster import DevCluster
from stepwell.dev_cluster.spark_daemons import LocalSparkFault
from stepwell.dev_cluster.topology import BROKERS_DEFAULT, WORKERS_DEFAULT, WORKERS_MAX, worker_host

app = typer.Typer(
    help="A cluster on this machine: Kafka brokers, a Spark master and its workers.",
    no_args_is_help=True,
    add_completion=False,
)

FolderOption = Annotated[
    Path | None, typer.Option("--folder", help="Where the cluster lives, if not in the user's cache.")
]


@app.command()
def up(
    folder: FolderOption = None,
    workers: Annotated[int | None, typer.Option(min=1, max=WORKERS_MAX, help="Spark workers.")] = None,
    brokers: Annotated[int | None, typer.Option(help="Kafka brokers: 1 or 3, where the folder is new.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Start what does not run of the local cluster."""
    if brokers is not None and brokers not in GROUP_SIZES:
        raise typer.BadParameter(f"{brokers}: write 1 or 3", param_hint="--brokers")
    with report_faults(as_json):
        place = folder or dev_cluster_folder()
        made = DevCluster.of(place)
        cluster = DevCluster(
            place,
            brokers or (BROKERS_DEFAULT if made is None else made.kafka.size),
            workers or (WORKERS_DEFAULT if made is None else len(made.spark.workers)),
        )
        was_complete = (
            cluster.is_complete and made is not None and len(made.spark.workers) == len(cluster.spark.workers)
        )
        cluster.up()
        lines = [
            f"the local cluster {'runs' if was_complete else 'is up'}: Kafka brokers {cluster.kafka.size}, Spark workers "
            f"{len(cluster.spark.workers)}",
            "set it in spark-pipeline.yml, configuration:",
            *(f"  {key}: {value}" for key, value in cluster.settings().items()),
            "each Spark worker gives its tasks a folder of its own (STEPWELL_LOCAL_DIR), so stepwell.local.dir need not be set;",
            "everything is on loopback, so stepwell.cluster.insecure need not be set",
            f"Spark's page: {cluster.spark.page_url}",
        ]
        show({**_describe(cluster), "started": not was_complete}, as_json=as_json, text="\n".join(lines))


@app.command()
def down(folder: FolderOption = None, as_json: JsonOption = False) -> None:
    """Stop the local cluster; its topics are there again at the next `dev cluster up`."""
    with report_faults(as_json):
        place = folder or dev_cluster_folder()
        cluster = DevCluster.of(place)
        was_running = cluster is not None and cluster.is_running
        if cluster is not None:
            cluster.down()
        text = "the local cluster is stopped" if was_running else "no local cluster runs"
        show({"stopped": was_running, "folder": str(place)}, as_json=as_json, text=text)


@app.command()
def status(folder: FolderOption = None, as_json: JsonOption = False) -> None:
    """Show which processes of the local cluster run."""
    with report_faults(as_json):
        place = folder or dev_cluster_folder()
        cluster = DevCluster.of(place)
        if cluster is None:
            text = f"no local cluster was ever started in {place}; start it with `stepwell dev cluster up`"
            show({"folder": str(place), "running": False}, as_json=as_json, text=text)
            return
        described = _describe(cluster)
        lines = [f"{each['name']} at {each['address']}: {_process_text(each)}" for each in described["processes"]]
        show({**described, "running": cluster.is_running}, as_json=as_json, text="\n".join(lines))


def _describe(cluster: DevCluster) -> dict[str, Any]:
    """The cluster for programs. `known` says whether Spark's master lists a worker as alive."""
    kafka, spark = cluster.kafka, cluster.spark
    processes: list[dict[str, Any]] = [
        {"name": f"broker {number}", "address": node.address, "pid": node.process.pid}
        for number, node in kafka.nodes.items()
    ]
    settings = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    try:
        settings = cluster.settings()
    except LocalSparkFault:
        return {"folder": str(cluster.folder), "settings": settings, "processes": processes}
    processes.append({"name": "Spark master", "address": spark.master_url, "pid": spark.master_pid})
    try:
        alive = spark.alive_workers()
    except LocalSparkFault:
        alive = {}
    for number, pid in spark.worker_pids.items():
        host = worker_host(number)
        processes.append(
            {
                "name": f"Spark worker {number}",
                "address": host,
                "pid": pid,
                "known": host in alive,
                "state_folder": str(spark.state_folder(number)),
            }
        )
    return {"folder": str(cluster.folder), "settings": settings, "page": spark.page_url, "processes": processes}


def _process_text(process: dict[str, Any]) -> str:
    if process["pid"] is None:
        return "does not run; start it with `stepwell dev cluster up`"
    known = "" if process.get("known", True) else ", and Spark's master does not know it"
    return f"process {process['pid']}{known}"
