"""Why a pipeline cannot be copied."""

from __future__ import annotations

from base.fault import ExitCode, Fault


class CopyRefused(Fault):
    """The copy cannot begin. Nothing of it counts, and nothing of the pipeline that was to be copied was changed."""

    exit_code = ExitCode.STATE
