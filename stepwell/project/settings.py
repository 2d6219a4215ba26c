"""The settings of a pipeline. Every setting is known, typed and checked against its bounds before anything starts.

Guarantees: an unknown `stepwell.*` key, a variable whose name is almost that of a setting, a value outside its bounds, or
a session time zone other than UTC is an error that names the key. The first of these places that has the key decides:
flags, the environment, `configuration:` of the project file, the default.

`kafka.*` is passed to the Kafka client without the prefix, and `stepwell.*` is Stepwell's. Everything else is passed to
Spark, which lets a project keep its own parameters there. In the environment a key is in upper case, with `_` for `.`:
STEPWELL_WORKERS is `stepwell.workers`, STEPWELL_KAFKA_BOOTSTRAP_SERVERS is `kafka.bootstrap.servers`. A value may stand
elsewhere (value_sources.py). Every secret among the values is remembered by base/secrets.py, and the text of settings shows none.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from base import secrets
from base.address import Address
from base.options import SWITCH_ROWS_MAX, WORKERS_MAX, OnError
from base.slots import SLOTS
from engine.model.layout import INACCURACY, SHARDS_FIXED
from io_kafka.step_log.division import STEP_ROWS_MAX
from stepwell.errors import SettingsError, did_you_mean, nearest_names
from stepwell.project.value_sources import FILE_SUFFIX, ValueSources
from stepwell.spark.fixed import TIME_ZONE_KEY
from storage.remote.errors import BadStoreUri
from storage.remote.uri import parse_store_uri, without_credentials

BOOTSTRAP_SERVERS_DEFAULT = "127.0.0.1:9092"

_TIME_UNIT_SECONDS = {
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hour": 3600.0, "hours": 3600.0,
    "d": 86400.0, "day": 86400.0, "days": 86400.0,
}  # fmt: skip
_BYTE_UNIT = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_duration(value: Any) -> float:
    """The seconds of a duration in Spark's notation: `500ms`, `10s`, `2min`, `1h`, `10 seconds`."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", str(value).lower())
    if match is None or match[2] not in _TIME_UNIT_SECONDS:
        raise ValueError("is not a duration: write a number and a unit, such as 500ms, 10s, 2min or 1h")
    return float(match[1]) * _TIME_UNIT_SECONDS[match[2]]


def parse_bytes(value: Any) -> int:
    """The bytes of a size in Spark's notation: `64m`, `1g`, `65536`."""
    match = re.fullmatch(r"\s*(\d+)\s*(?:([bkmgt])(?:i?b)?)?\s*", str(value).lower())
    if match is None:
        raise ValueError("is not a size: write a number of bytes, or one with a unit, such as 64m or 1g")
    return int(match[1]) * _BYTE_UNIT[match[2] or "b"]


Duration = Annotated[float, BeforeValidator(lambda v: v if isinstance(v, float) else parse_duration(v))]
DurationOrNever = Annotated[
    Annotated[float, Field(ge=1, le=86400)] | None,
    BeforeValidator(lambda v: None if v == "never" else v if v is None or isinstance(v, float) else parse_duration(v)),
]
"""None means never."""
Bytes = Annotated[int, BeforeValidator(parse_bytes)]


class StepwellSettings(BaseSettings):
    """The settings `stepwell.*`. The field `a_b` is the key `stepwell.a.b`. Durations are in seconds, and sizes in bytes."""

    model_config = SettingsConfigDict(env_prefix="STEPWELL_", frozen=True, extra="forbid", validate_default=True)

    # Workers own the state, and each is a Spark task that lives as long as the run. Without the setting, a state keeps its number, and a new
    # pipeline in local mode gets a worker for each core, at most 8, and with `local[N]` at most N - 1. On a cluster a new pipeline needs the
    # setting. A run acts on a value that was changed since it was acted on last, so an old value does not undo `stepwell layout change`. The
    # bound prevents a typing error from asking for a million task slots.
    workers: int | None = Field(default=None, ge=1, le=WORKERS_MAX)
    # Between these numbers Stepwell chooses the workers by the load, if both are set. As with `stepwell.workers`, a run acts on values that were
    # changed since they were acted on, so old ones do not undo `stepwell layout auto`.
    workers_min: int | None = Field(default=None, ge=1, le=WORKERS_MAX)
    workers_max: int | None = Field(default=None, ge=1, le=WORKERS_MAX)
    # In this time a backlog has to be gone; otherwise Stepwell takes more workers. Below 10 s it would take them for a single slow step.
    workers_drain: Duration = Field(default="5min", ge=10, le=86400)  # type: ignore[assignment]
    # For so long fewer workers have to have been enough before Stepwell takes them. It remembers the load of six hours.
    workers_lower_after: Duration = Field(default="15min", ge=60, le=6 * 3600)  # type: ignore[assignment]
    # The replay after a crash takes at most about this long. Below 100 ms, one checkpoint would follow another without a break.
    checkpoint_interval: Duration = Field(default="10s", ge=0.1, le=86400)  # type: ignore[assignment]
    # To this the time of a step is rounded down, if a view reads the clock. A view that computes with the clock takes a step whenever the
    # rounded time is another one, so a finer resolution costs steps.
    clock_resolution: Duration = Field(default="1s", ge=0.001, le=86400)  # type: ignore[assignment]
    # Under a backlog, larger steps have a higher throughput and a longer latency.
    step_rows_max: int = Field(default=STEP_ROWS_MAX, ge=1, le=10_000_000)
    # This bounds the memory of a step if messages are large. It counts the keys and values of the input as they are in Kafka. With messages
    # of 1 MB a service takes 110 MB above its base at 16m, 140 MB at 32m and 450 MB at 128m.
    step_bytes_max: Bytes = Field(default="80m", ge=1 << 10, le=1 << 32)  # type: ignore[assignment]
    # All workers must have a task slot of Spark within this time after the start. On a cluster executors may have to start first.
    worker_register: Duration = Field(default="60s", ge=1, le=86400)  # type: ignore[assignment]
    # On a cluster, a start that has waited so long for task slots goes on with fewer workers, if the state of all is in the checkpoint store or
    # on the hosts that are there. A minute is longer than an executor takes to come back on a host that was not lost. `never`: it waits, and
    # ends after `stepwell.worker.register`.
    cluster_shrink_after: DurationOrNever = "60s"  # type: ignore[assignment]
    # A worker or a coordinator that gives no sign of life for this long counts as dead. It gives one per second.
    worker_silence: Duration = Field(default="5s", ge=2, le=86400)  # type: ignore[assignment]
    # A worker that makes no progress for this long while all others wait counts as stalled. Slow steps extend it to ten times their time.
    worker_progress: Duration = Field(default="30s", ge=2, le=86400)  # type: ignore[assignment]
    # The folder in which each host keeps the databases of its workers; it should outlive Spark's executors. Without it they are in the
    # project's storage folder, which is on the driver's host, so a cluster needs it. There STEPWELL_LOCAL_DIR of an executor's process goes
    # before it.
    local_dir: Path | None = None
    # Workers on other hosts talk to the coordinator and to each other without encryption, so a run on a cluster has to allow it.
    cluster_insecure: bool = False
    # The number of partitions of an output topic that Stepwell creates. An existing topic keeps its own number.
    topics_partitions: int = Field(default=4, ge=1, le=10_000)
    # -1 means the broker's default.
    topics_replication_factor: int = Field(default=-1, ge=-1, le=100)
    # How a new state is divided into shards, which are what a change of the number of workers distributes. `fixed`: their number is that of
    # `stepwell.shards`. `dynamic`: it follows the number of workers. A state keeps its policy until `stepwell layout change` names another.
    sharding: Literal["fixed", "dynamic"] = "fixed"
    # By which part the largest share of a worker may exceed the mean under the dynamic policy. A lower one means more shards.
    sharding_inaccuracy: float = Field(default=INACCURACY, gt=0, le=1)
    # The number of shards under the fixed policy. 4096 give a hundred workers shares that differ by 2.5 %. No more than slots.
    shards: int = Field(default=SHARDS_FIXED, ge=1, le=SLOTS)
    # Every output message has its step in a header. Leaving it out saves 0.7 us per message that is produced without the C extension.
    message_step_header: bool = True
    # What happens to a malformed message if its table does not say.
    on_error: OnError = "fail"
    # The schema registry of tables that do not name one.
    registry_url: str | None = None
    # USER:PASSWORD for the schema registries. It has no place in a table's properties, which are in files that everybody reads.
    registry_auth: str | None = Field(default=None, repr=False)
    # If the endpoint of a running service has not answered for this long, the service is considered dead and may be fenced.
    takeover_silence: Duration = Field(default="30s", ge=1, le=86400)  # type: ignore[assignment]
    # `stepwell steps N` can answer for at least this many last steps. The step log is truncated before them.
    steps_kept: int = Field(default=100_000, ge=1)
    # The URI of the checkpoint store, in which the state outlives the disks of the hosts. None: it is on these disks alone.
    store: str | None = None
    # For how long a complete checkpoint may wait for the store. A store that is slow or away delays neither steps nor checkpoints until
    # then. Below 10 s, a single upload that is sent again would be too late. Beyond 30 days, hardly any topic still has the input to replay.
    store_lag_max: Duration = Field(default="10min", ge=10, le=30 * 86400)  # type: ignore[assignment]
    # What happens when a checkpoint has waited for so long. `pause`: no step begins until the store has caught up, so that the loss of a host
    # never costs more. `continue`: the steps go on and rely on the disks.
    store_late: Literal["pause", "continue"] = "pause"
    switch_rows_max: int = Field(default=SWITCH_ROWS_MAX, ge=1)
    # The port of the control endpoint on loopback. 0 means any free port.
    control_port: int = Field(default=0, ge=0, le=65535)
    # What a command writes to standard error: lines for people, or one JSON object each, for a collector of logs.
    log_format: Literal["text", "json"] = "text"
    # From which level on it logs. At `debug` also the clients of Kafka do.
    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    # HOST:PORT at which metrics and probes can be had without the token of the control endpoint. None: there alone.
    metrics_address: str | None = None
    # The file with the token that this listener asks for. None: it asks for none on loopback, and elsewhere the file is `metrics.token` in the
    # project's storage folder. A file that is missing is made.
    metrics_token_file: Path | None = None
    # A pipeline counts as ready while the newest message that it has read is no older than this, although others wait, or while its lag falls.
    ready_lag: Duration = Field(default="1min", ge=1, le=86400)  # type: ignore[assignment]

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


def _key(field_name: str) -> str:
    return "stepwell." + field_name.replace("_", ".")


STEPWELL_KEYS: Mapping[str, str] = {_key(name): name for name in StepwellSettings.model_fields}


@dataclass(frozen=True)
class Settings:
    """All settings of a run. `kafka` has the names that the Kafka client uses (without `kafka.`), and `spark` has full names.
    `secret_variables`: the variables of the environment that have secrets, and that no other process needs. The text shows no secret."""

    stepwell: StepwellSettings
    kafka: dict[str, str] = field(default_factory=dict)
    spark: dict[str, str] = field(default_factory=dict)
    secret_variables: frozenset[str] = field(default=frozenset(), compare=False)

    def __repr__(self) -> str:
        return f"Settings({self.stepwell!r}, kafka={secrets.masked(self.kafka)}, spark={secrets.masked(self.spark)})"

    def shown(self) -> dict[str, str]:
        """All settings by full key, as they may be shown."""
        ours = {_key(name): value for name, value in self.stepwell.model_dump().items() if value is not None}
        of_kafka = {f"kafka.{name}": value for name, value in self.kafka.items()}
        return secrets.masked({key: str(value) for key, value in {**ours, **of_kafka, **self.spark}.items()})


_FLAG, _FILE = "a flag", "spark-pipeline.yml"

_UTC_NAMES = ("utc", "etc/utc", "z", "+00:00", "gmt", "etc/gmt")

_ENVIRONMENT_PREFIX = "STEPWELL_"
_ENVIRONMENT_KAFKA_PREFIX = "STEPWELL_KAFKA_"

_SLIP_SIMILARITY_MIN = 0.8
"""From this ratio of difflib on, a variable counts as a setting with a typing error: one wrong letter of six, or two swapped."""


def load_settings(
    configuration: Mapping[str, str], flags: Mapping[str, str] | None = None, *, may_lack: bool = False
) -> Settings:
    """The settings of a run from the project file's `configuration`, the environment and `flags` (by full key). `may_lack`: see ValueSources.

    Raises SettingsError, which names the key and the place that its value came from.
    """
    flags = flags or {}
    for keys, origin in ((flags, _FLAG), (configuration, _FILE)):
        _check_keys(keys, origin)
    _check_environment()
    secret_variables = {name for name in os.environ if name.startswith(_ENVIRONMENT_PREFIX) and secrets.is_secret(name)}
    secrets.remember_all({name: os.environ[name] for name in secret_variables})
    sources = ValueSources(secret_variables, may_lack)
    configuration, flags = sources.resolved(configuration, _FILE), sources.resolved(flags, _FLAG)
    of_files = sources.from_file_variables(_variables_with_files())
    settings = Settings(
        stepwell=_load_stepwell(configuration, flags, of_files),
        kafka={"bootstrap.servers": BOOTSTRAP_SERVERS_DEFAULT}
        | _with_prefix(configuration, "kafka.")
        | _kafka_of_variables({**os.environ, **of_files})
        | _with_prefix(flags, "kafka."),
        spark={
            key: value
            for key, value in {**configuration, **flags}.items()
            if not key.startswith(("kafka.", "stepwell."))
        },
        secret_variables=frozenset(sources.variables),
    )
    secrets.remember_all(settings.kafka)
    secrets.remember_all(settings.spark)
    _remember_login(settings.stepwell.registry_auth)
    check_time_zone(settings.spark.get(TIME_ZONE_KEY, "UTC"))
    return settings


def _remember_login(auth: str | None) -> None:
    """USER:PASSWORD, the password alone, and both as a header of HTTP has them."""
    if auth is not None:
        for text in (auth, auth.partition(":")[2], b64encode(auth.encode()).decode()):
            secrets.remember(text)


def check_time_zone(zone: str) -> None:
    """Raises SettingsError unless `zone` is UTC."""
    if zone.lower() not in _UTC_NAMES:
        raise SettingsError(
            f"{TIME_ZONE_KEY} is {zone}, and Stepwell runs in UTC only",
            "Leave it out; convert in the views that need another zone: from_utc_timestamp(ts, 'Europe/Paris').",
            key=TIME_ZONE_KEY,
        )


def _with_prefix(values: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}


def _kafka_of_variables(variables: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(_ENVIRONMENT_KAFKA_PREFIX).lower().replace("_", "."): value
        for name, value in variables.items()
        if name.startswith(_ENVIRONMENT_KAFKA_PREFIX) and not name.endswith(FILE_SUFFIX)
    }


def _variables_with_files() -> list[str]:
    """The variables, without FILE_SUFFIX, for which a file may be named: of every option of Kafka, and of every setting."""
    of_kafka = [
        name.removesuffix(FILE_SUFFIX)
        for name in os.environ
        if name.startswith(_ENVIRONMENT_KAFKA_PREFIX) and name.endswith(FILE_SUFFIX)
    ]
    return [*of_kafka, *(_ENVIRONMENT_PREFIX + name.upper() for name in STEPWELL_KEYS.values())]


def _check_keys(keys: Mapping[str, str], origin: str) -> None:
    for key in keys:
        prefix, dot, _ = key.partition(".")
        if prefix == "stepwell" and key not in STEPWELL_KEYS:
            raise SettingsError(
                f"{key} ({origin}) is not a setting", did_you_mean(key, STEPWELL_KEYS, "settings"), key=key
            )
        if (
            dot
            and prefix not in ("stepwell", "kafka", "spark")
            and (close := nearest_names(prefix, ("stepwell", "kafka")))
        ):
            raise SettingsError(
                f"{key} ({origin}) would be a parameter of your own, but looks like a slip",
                f"Did you mean {close[0]}{key.removeprefix(prefix)}?",
                key=key,
            )


def _check_environment() -> None:
    """Raises SettingsError for a variable whose name is almost that of a setting. Any other variable may be somebody else's."""
    known = [name.upper() for name in STEPWELL_KEYS.values()]
    for variable in os.environ:
        name = variable.removeprefix(_ENVIRONMENT_PREFIX)
        if (
            name == variable
            or name.removesuffix(FILE_SUFFIX) in known
            or variable.startswith(_ENVIRONMENT_KAFKA_PREFIX)
        ):
            continue
        if close := nearest_names(name, known, _SLIP_SIMILARITY_MIN):
            raise SettingsError(
                f"{variable} (environment) is not a setting",
                f"Did you mean {_ENVIRONMENT_PREFIX}{close[0]}?",
                key=variable,
            )


def _load_stepwell(
    configuration: Mapping[str, str], flags: Mapping[str, str], of_files: Mapping[str, str]
) -> StepwellSettings:
    """`of_files`: the values of variables that files have, by the name of the variable."""
    from_file = {STEPWELL_KEYS[key]: value for key, value in configuration.items() if key in STEPWELL_KEYS}
    variables = {_ENVIRONMENT_PREFIX + name.upper(): name for name in STEPWELL_KEYS.values()}
    from_file |= {variables[name]: value for name, value in of_files.items() if name in variables}
    from_flags: dict[str, Any] = {STEPWELL_KEYS[key]: value for key, value in flags.items() if key in STEPWELL_KEYS}

    class Layered(StepwellSettings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return init_settings, env_settings, InitSettingsSource(settings_cls, from_file)

    try:
        layered = Layered(**from_flags)
    except ValidationError as error:
        raise _explain(error, flags) from None
    # The class is at module level, so that settings can be pickled.
    return StepwellSettings.model_construct(**layered.model_dump())


def _explain(error: ValidationError, flags: Mapping[str, str]) -> SettingsError:
    first = error.errors()[0]
    name = str(first["loc"][0])
    key, variable = _key(name), _ENVIRONMENT_PREFIX + name.upper()
    named = [each for each in (variable, variable + FILE_SUFFIX) if each in os.environ]
    origin = _FLAG if key in flags else named[0] if named else _FILE
    reason = first["msg"].removeprefix("Value error, ")
    given = first["input"]
    shown = (
        without_credentials(given)
        if name == "store"
        else secrets.shown(key, given)
        if isinstance(given, str)
        else given
    )
    return SettingsError(
        f"{key} = {shown!r} ({origin}): {reason}",
        f"Its default is {StepwellSettings.model_fields[name].default}.",
        key=key,
    )
