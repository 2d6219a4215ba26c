"""The workers of one term, as the coordinator sees them. crew.py says how the parts work together."""

from engine.resident.crew.crew import Crew, CrewLimits
from engine.resident.crew.steps import WorkerOutput
from engine.resident.crew.workers import DiskUse

__all__ = ["Crew", "CrewLimits", "DiskUse", "WorkerOutput"]
