"""The settings `stepwell.*`: types, bounds, defaults, and what each means. docs/settings.md is made from them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from base.address import Address
from base.limits import SWITCH_ROWS_MAX, WORKERS_MAX
from base.options import OnError
from base.slots import SLOTS
from engine.model.layout import INACCURACY, SHARDS_FIXED
from io_kafka.step_log.division import STEP_ROWS_MAX
from stepwell.project.units import Bytes, Duration, DurationOrNever
from storage.remote.errors import BadStoreUri
from storage.remote.uri import parse_store_uri


class StepwellSettings(BaseSettings):
    """The settings `stepwell.*`. The field `a_b` is the key `stepwell.a.b`. Durations are in seconds, and sizes in bytes."""

    model_config = SettingsConfigDict(env_prefix="STEPWELL_", frozen=True, extra="forbid", validate_default=True)

    workers: int | None = Field(
        default=None,
        ge=1,
        le=WORKERS_MAX,
        description="The number of workers, which own the state; each is a Spark task that lives as long as the run. Without it a state "
        "keeps its number, and a new pipeline in local mode gets one for each core, at most 8, and with `local[N]` at most N - 1. On a "
        "cluster a new pipeline needs it, or `stepwell.workers.min`. A value that was changed since a run acted on it last changes the layout "
        "at the next start, so an old one does not undo `stepwell layout change`.",
    )
    workers_min: int | None = Field(
        default=None,
        ge=1,
        le=WORKERS_MAX,
        description="With `stepwell.workers.max`: between these numbers Stepwell chooses the workers by the load (layouts.md). As with "
        "`stepwell.workers`, old values do not undo `stepwell layout auto`.",
    )
    workers_max: int | None = Field(default=None, ge=1, le=WORKERS_MAX, description="See `stepwell.workers.min`.")
    workers_drain: Duration = Field(
        default="5min",  # type: ignore[assignment]
        ge=10,  # below, a single slow step would ask for more workers
        le=86400,
        description="In this time a backlog has to be gone; otherwise Stepwell takes more workers.",
    )
    workers_lower_after: Duration = Field(
        default="15min",  # type: ignore[assignment]
        ge=60,
        le=6 * 3600,  # of which the load is remembered
        description="For so long fewer workers have to have been enough before Stepwell takes them.",
    )
    checkpoint_interval: Duration = Field(
        default="10s",  # type: ignore[assignment]
        ge=0.1,  # below, one checkpoint would follow another without a break
        le=86400,
        description="How often a checkpoint is made. The replay after a crash takes at most about this long.",
    )
    clock_resolution: Duration = Field(
        default="1s",  # type: ignore[assignment]
        ge=0.001,
        le=86400,
        description=(
            "To this the time of a step is rounded down, if a view reads the clock (sql.md). A view that computes with the clock takes a step "
            "whenever the rounded time is another one, so a finer resolution costs steps."
        ),
    )
    watermark_idle_after: DurationOrNever = Field(
        default="never",  # type: ignore[assignment]
        description="A topic that has brought no message for so long is idle, and a query with several watermarks no longer waits for it "
        "(sql.md). When it brings rows again, those behind the watermark are late. `never`: the least of all watermarks counts, as "
        "in Spark.",
    )
    step_rows_max: int = Field(
        default=STEP_ROWS_MAX,
        ge=1,
        le=10_000_000,
        description="The most messages of a step. Under a backlog, larger steps have a higher throughput and a longer latency.",
    )
    step_bytes_max: Bytes = Field(
        default="80m",  # type: ignore[assignment]
        ge=1 << 10,
        le=1 << 32,
        description="The most bytes of a step: keys and values of its input, as they are in Kafka. It decides where they average more "
        "than about 260 bytes, and bounds the memory of a step if messages are large. With messages of 1 MB a service takes 110 MB "
        "above its base at 16m, 140 MB at 32m and 450 MB at 128m. At least one message of each partition always fits.",
    )
    worker_register: Duration = Field(
        default="60s",  # type: ignore[assignment]
        ge=1,
        le=86400,
        description="All workers must have a task slot of Spark within this time after the start. On a cluster executors may have to "
        "start first.",
    )
    cluster_shrink_after: DurationOrNever = Field(
        default="60s",  # type: ignore[assignment]
        description="On a cluster, a start or a recovery that has waited so long for task slots goes on with fewer workers, if the "
        "state of all is in the checkpoint store or on the hosts that are there. A minute is longer than an executor takes to come back "
        "on a host that was not lost. `never`: it waits, and ends after `stepwell.worker.register`.",
    )
    worker_silence: Duration = Field(
        default="5s",  # type: ignore[assignment]
        ge=2,
        le=86400,
        description="A worker or a service that gives no sign of life for this long counts as dead. It gives one per second.",
    )
    worker_progress: Duration = Field(
        default="30s",  # type: ignore[assignment]
        ge=2,
        le=86400,
        description="A worker that makes no progress for this long while all others wait is replaced. Slow steps extend it to ten times "
        "the slowest of the last ones.",
    )
    local_dir: Path | None = Field(
        default=None,
        description="The folder in which each host keeps the databases of its workers; it should outlive Spark's executors. Without it "
        "they are in the project's storage folder, which is on the service's host, so a cluster needs it. There STEPWELL_LOCAL_DIR of "
        "an executor's process goes before it.",
    )
    cluster_insecure: bool = Field(
        default=False,
        description="Allows workers on other hosts to talk to the service and to each other without encryption, on a network whose "
        "users you trust.",
    )
    topics_partitions: int = Field(
        default=4,
        ge=1,
        le=10_000,
        description="The number of partitions of an output topic that Stepwell creates. An existing topic keeps its own number.",
    )
    topics_replication_factor: int = Field(
        default=-1,
        ge=-1,
        le=100,
        description="The replication factor of the topics that Stepwell creates. -1 means the broker's default.",
    )
    sharding: Literal["fixed", "dynamic"] = Field(
        default="fixed",
        description="How a new state is divided into shards, which are what a change of the number of workers distributes. `fixed`: "
        "their number is that of `stepwell.shards`. `dynamic`: it follows the number of workers. A state keeps its policy until "
        "`stepwell layout change` names another.",
    )
    sharding_inaccuracy: float = Field(
        default=INACCURACY,
        gt=0,
        le=1,
        description="By which part the largest share of a worker may exceed the mean under the dynamic policy. A lower one means more "
        "shards.",
    )
    shards: int = Field(
        default=SHARDS_FIXED,
        ge=1,
        le=SLOTS,
        description="The number of shards under the fixed policy, a power of two. 4096 give a hundred workers shares that differ by 2.5 "
        "%.",
    )
    message_step_header: bool = Field(
        default=True,
        description="Whether every output message has its step in the header `stepwell.step`. Leaving it out saves 0.7 us per message "
        "that is produced without the C extension.",
    )
    on_error: OnError = Field(
        default="fail",
        description="What happens to a malformed message if its table does not say: the pipeline stops (`fail`), the message is counted "
        "and left out (`skip`), or it is copied to a topic (`dead-letter`).",
    )
    registry_url: str | None = Field(
        default=None, description="The schema registry of tables in Avro, Protobuf or JSON that name none."
    )
    registry_auth: str | None = Field(
        default=None,
        repr=False,  # and it has no place in a table's properties, which are in files that everybody reads
        description="USER:PASSWORD for the schema registries. It belongs into a variable or a file (secrets.md).",
    )
    takeover_silence: Duration = Field(
        default="30s",  # type: ignore[assignment]
        ge=1,
        le=86400,
        description="How long a run that has not recorded its end must be silent before another may fence it.",
    )
    steps_kept: int = Field(
        default=100_000,
        ge=1,
        description="`stepwell steps N` can answer for at least this many last steps. The step log is truncated before them.",
    )
    store: str | None = Field(
        default=None,
        description="The URI of the checkpoint store, in which the state outlives the disks of the hosts (durability.md). Without it "
        "the state is on these disks alone.",
    )
    store_lag_max: Duration = Field(
        default="10min",  # type: ignore[assignment]
        ge=10,  # below, a single upload that is sent again would be too late
        le=30 * 86400,  # beyond, hardly any topic still has the input to replay
        description="For how long a complete checkpoint may wait for the store. A store that is slow or away delays neither steps nor "
        "checkpoints until then.",
    )
    store_late: Literal["pause", "continue"] = Field(
        default="pause",
        description="What happens when a checkpoint has waited for so long. `pause`: no step begins until the store has caught up, so "
        "that the loss of a host never costs more. `continue`: the steps go on and rely on the disks.",
    )
    switch_rows_max: int = Field(
        default=SWITCH_ROWS_MAX,
        ge=1,
        description="The most rows that a change of the project may pass on in the one step of its switch. They are in memory at once. "
        "With more it is held, and `--gradual` is the way out (evolution.md).",
    )
    control_port: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="The port of the control endpoint and of the page, on loopback. 0 means any free port.",
    )
    query_process: Literal["on-demand", "always", "never"] = Field(
        default="on-demand",
        description="When the service has a process that answers `stepwell query` within a second, which takes 0.5 GB of memory. "
        "`on-demand`: from the first query until ten minutes after the last one. `always`: as long as the service runs. `never`: each "
        "`stepwell query` starts a Spark of its own.",
    )
    log_format: Literal["text", "json"] = Field(
        default="text",
        description="What a command writes to standard error: lines for people, or one JSON object each, for a collector of logs.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="warning", description="From which level on it logs. At `debug` also the clients of Kafka do."
    )
    metrics_address: str | None = Field(
        default=None,
        description="HOST:PORT at which metrics and probes can be had without the token of the control endpoint (monitoring.md). "
        "Without it they are at that endpoint alone.",
    )
    metrics_token_file: Path | None = Field(
        default=None,
        description="The file with the token that this listener asks for. Without it the listener asks for none on loopback, and "
        "elsewhere the file is `metrics.token` in the project's storage folder. A file that is missing is made.",
    )
    ready_lag: Duration = Field(
        default="1min",  # type: ignore[assignment]
        ge=1,
        le=86400,
        description="A pipeline counts as ready while the newest message that it has read is no older than this, although others wait, "
        "or while its lag falls.",
    )

    @field_validator("metrics_address")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value is not None:
            Address.parse(value)
        return value

    @field_validator("local_dir")
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        if value is not None and not value.is_absolute():
            raise ValueError("must be an absolute path: each host resolves it by itself")
        return value

    @field_validator("workers_max")
    @classmethod
    def _both_bounds(cls, value: int | None, info: ValidationInfo) -> int | None:
        least = info.data.get("workers_min")
        if (least is None) != (value is None):
            raise ValueError("stepwell.workers.min and stepwell.workers.max go together: set both or none")
        if least is not None and value is not None and value < least:
            raise ValueError(f"is less than stepwell.workers.min, which is {least}")
        return value

    @field_validator("store")
    @classmethod
    def _store_uri(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                parse_store_uri(value)
            except BadStoreUri as fault:
                raise ValueError(f"{fault.reason}. {fault.what_to_do}") from None
        return value

    @field_validator("shards")
    @classmethod
    def _power_of_two(cls, value: int) -> int:
        if value & (value - 1):
            raise ValueError("must be a power of two: the 65,536 slots are divided into shards of equal size")
        return value


def key_of(field_name: str) -> str:
    return "stepwell." + field_name.replace("_", ".")


STEPWELL_KEYS: Mapping[str, str] = {key_of(name): name for name in StepwellSettings.model_fields}
