"""What stands in for a class or a function of the project can be called as the original can. A name or a parameter that only one of them has
would show as a crash somewhere in a simulated world, or as one that nothing simulates."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from engine.run import differences, sources, stage
from engine.state import moves
from storage import environments
from tests.simulator import circuit, disk, stages

NOT_SIMULATED = {"Environment": {"close"}}
"""Nothing in a world closes an environment: what a killed process had open is gone with it."""

ONLY_IN_A_WORLD = {"Environment": {"crash", "durable", "locked", "now"}}


def _methods(kind: Any) -> dict[str, Any]:
    return {name: value for name, value in inspect.getmembers(kind, callable) if not name.startswith("_")}


def _module_functions(module: Any, like: Any) -> dict[str, Any]:
    """Those of a module that its twin has: a twin of `moves` has what cuts and copies ask for."""
    return {name: getattr(module, name) for name in _methods(like) if hasattr(module, name)}


def _parameters(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


@pytest.mark.parametrize("name", ["Reader", "Writer", "Environment"])
def test_environments_on_the_simulated_disk_have_the_methods_of_real_ones(name: str) -> None:
    real, twin = _methods(getattr(environments, name)), _methods(getattr(disk, name))
    extra = {"result"} if name == "Writer" else ONLY_IN_A_WORLD.get(name, set())
    assert real.keys() - NOT_SIMULATED.get(name, set()) == twin.keys() - extra
    assert {m: _parameters(twin[m]) for m in twin.keys() & real.keys()} == {
        m: _parameters(real[m]) for m in twin.keys() & real.keys()
    }


def test_stages_and_moves_of_a_world_are_called_as_real_ones() -> None:
    pairs = [(stage.run_stage, stages.run_stage), (sources.read_sources, circuit.read_sources)]
    pairs.append((differences.measure, stages.measure))
    real = _module_functions(moves, circuit.Moves)
    pairs += [(real[name], twin) for name, twin in _methods(circuit.Moves).items() if name in real]
    assert len(real) >= 5
    for one, other in pairs:
        assert _parameters(one) == _parameters(other), one.__name__
