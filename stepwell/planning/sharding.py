"""The policies that a project's settings name. Commands choose between them with --fixed and --dynamic."""

from __future__ import annotations

from engine.model.layout import Dynamic, Fixed, Policy, PolicyName
from stepwell.project.stepwell_settings import StepwellSettings


def policies_of(settings: StepwellSettings) -> dict[PolicyName, Policy]:
    """Each policy with the project's numbers."""
    return {"fixed": Fixed(settings.shards), "dynamic": Dynamic(settings.sharding_inaccuracy)}
