"""Where a schema registry is, as plain data. It pickles, and its text shows no password."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class RegistryAddress:
    """The address of a schema registry. `url` without a slash at its end. `auth`: `USER:PASSWORD` for basic authentication, which comes from the
    settings."""

    url: str
    auth: str | None = field(default=None, repr=False)
