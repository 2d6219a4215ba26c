"""`python -m tests.stepwell.jvm_killer MOMENT COMMAND ...`: a command of the command line whose JVM gets SIGKILL at a moment."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import psutil
from pyspark import SparkContext, java_gateway

from stepwell.cli import app
from stepwell.planning import plans, resolver

# Where the JVM is killed: just before this function is called for the first time, or just after it (Popen).
MOMENTS: dict[str, tuple[Any, str]] = {
    "launched": (java_gateway, "Popen"),
    "connected": (java_gateway, "java_import"),
    "context": (SparkContext, "_initialize_context"),
    "definitions": (resolver, "load_definitions"),
    "analysed": (resolver, "flow_plan"),
    "leaves": (plans, "mark_leaves"),
}


def kill_jvm() -> None:
    for child in psutil.Process().children():
        child.kill()


def killing(function: Callable[..., Any], *, after: bool) -> Callable[..., Any]:
    def killed(*arguments: Any, **options: Any) -> Any:
        if not after:
            kill_jvm()
        found = function(*arguments, **options)
        if after:
            kill_jvm()
        return found

    return killed


def main() -> None:
    owner, name = MOMENTS[sys.argv.pop(1)]
    setattr(owner, name, killing(getattr(owner, name), after=name == "Popen"))
    app()


if __name__ == "__main__":
    main()
