"""The policies that a project's settings name. Commands choose between them with --fixed and --dynamic."""

from __future__ import annotations

from engine.model.layout import DynamicShards, FixedShards, Policy, PolicyName
from stepwell.project.stepwell_settings import StepwellSettings


def policies_of(settings: StepwellSettings) -> dict[PolicyName, Policy]:
    """Each policy with the project's numbers."""
    return {"fixed": FixedShards(settings.shards), "dynamic": DynamicShards(settings.sharding_inaccuracy)}
