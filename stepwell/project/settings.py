"""The settings of a pipeline. Every setting is known, typed and checked against its bounds before anything starts.

Guarantees: an unknown `stepwell.*` key, a variable whose name is almost that of a setting, a value outside its bounds, or
a session time zone other than UTC is an error that names the key. The first of these places that has the key decides:
flags, the environment, `configuration:` of the project file, the default.

`kafka.*` is passed to the Kafka client without the prefix, and `stepwell.*` is Stepwell's. Everything else is passed to
Spark, which lets a project keep its own parameters there. In the environment a key is in upper case, with `_` for `.`:
STEPWELL_WORKERS is `stepwell.workers`, STEPWELL_KAFKA_BOOTSTRAP_SERVERS is `kafka.bootstrap.servers`. A value may stand
elsewhere (value_sources.py). Every secret among the values is remembered by base/secrets.py, and the text of settings shows none.
stepwell_settings.py says what each setting is.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
)

from base import secrets
from stepwell.errors import SettingsError, did_you_mean, nearest_names
from stepwell.project.stepwell_settings import STEPWELL_KEYS, StepwellSettings, key_of
from stepwell.project.value_sources import FILE_SUFFIX, ValueSources
from stepwell.spark.fixed import TIME_ZONE_KEY
from storage.remote.uri import without_credentials

BOOTSTRAP_SERVERS_DEFAULT = "127.0.0.1:9092"


@dataclass(frozen=True)
class Settings:
    """All settings of a run. `kafka` has the names that the Kafka client uses (without `kafka.`), and `spark` has full names.
    `secret_variables`: the variables of the environment that have secrets, and that no other process needs. The text shows no secret."""

    stepwell: StepwellSettings
    kafka: dict[str, str] = field(default_factory=dict)
    spark: dict[str, str] = field(default_factory=dict)
    secret_variables: frozenset[str] = field(default=frozenset(), compare=False)

    def __repr__(self) -> str:
        return f"Settings({self.stepwell!r}, kafka={secrets.mask_values(self.kafka)}, spark={secrets.mask_values(self.spark)})"

    def show(self) -> dict[str, str]:
        """All settings by full key, as they may be shown."""
        ours = {key_of(name): value for name, value in self.stepwell.model_dump().items() if value is not None}
        of_kafka = {f"kafka.{name}": value for name, value in self.kafka.items()}
        return secrets.mask_values({key: str(value) for key, value in {**ours, **of_kafka, **self.spark}.items()})


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
    configuration, flags = sources.resolve(configuration, _FILE), sources.resolve(flags, _FLAG)
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
    key, variable = key_of(name), _ENVIRONMENT_PREFIX + name.upper()
    named = [each for each in (variable, variable + FILE_SUFFIX) if each in os.environ]
    origin = _FLAG if key in flags else named[0] if named else _FILE
    reason, default = first["msg"].removeprefix("Value error, "), StepwellSettings.model_fields[name].default
    given = first["input"]
    shown = (
        without_credentials(given)
        if name == "store"
        else secrets.mask_value(key, given)
        if isinstance(given, str)
        else given
    )
    return SettingsError(
        f"{key} = {shown!r} ({origin}): {reason}",
        "docs/settings.md describes it." if default is None else f"Its default is {default}.",
        key=key,
    )
