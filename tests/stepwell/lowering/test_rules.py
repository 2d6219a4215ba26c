"""The table of rules is complete: a rule that nobody put into it would leave its construct refused."""

from __future__ import annotations

import importlib
import pkgutil
from types import FunctionType

from stepwell.lowering import rules
from stepwell.lowering.rules import RULES


def test_every_rule_is_in_the_table_for_some_node() -> None:
    """`lower` and `lower_...` of each module. A node that `not_yet` still lists would hide its new rule."""
    used = set(RULES.values())
    unused = [
        f"{module.name}.{name}"
        for module in pkgutil.iter_modules(rules.__path__)
        for name, rule in vars(importlib.import_module(f"{rules.__name__}.{module.name}")).items()
        if isinstance(rule, FunctionType) and (name == "lower" or name.startswith("lower_")) and rule not in used
    ]
    assert unused == []
