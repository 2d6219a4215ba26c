"""The policies that a project's settings name. Commands choose between them with --fixed and --dynamic."""

from __future__ import annotations

from typing import Literal

from engine.model.layout import Dynamic, Fixed, Policy
from stepwell.project.settings import StepwellSettings

PolicyName = Literal["fixed", "dynamic"]


def policies_of(settings: StepwellSettings) -> dict[PolicyName, Policy]:
    """Each policy with the project's numbers."""
    return {"fixed": Fixed(settings.shards), "dynamic": Dynamic(settings.sharding_inaccuracy)}
