"""The options with which `plan`, `apply` and `run --apply` say how a change is applied. See docs/evolution.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from coordinator.revisions.choices import Chosen  # commands begin without the coordinator

FROM_NOW = "from-now"

FromNowOption = Annotated[
    list[str] | None,
    typer.Option(
        "--from-now",
        metavar="SOURCE",
        help="New nodes count the messages of this source from the present positions on. May be given several times.",
    ),
]
AppendOption = Annotated[
    list[str] | None,
    typer.Option(
        "--append",
        metavar="OUTPUT=from-now",
        help="This append output gets only what its new definition puts out from the switch on. May be given several times.",
    ),
]
RetractOption = Annotated[
    list[str] | None,
    typer.Option(
        "--retract",
        metavar="OUTPUT",
        help="Take back what this output has written, because nothing writes it any more. May be given several times.",
    ),
]

GradualOption = Annotated[
    bool,
    typer.Option(
        "--gradual",
        help="What differs leaves in parts, in the steps from the switch on. Until all has left, views and outputs are partly old.",
    ),
]


def chosen_of(
    from_now: Sequence[str] | None,
    append: Sequence[str] | None,
    retract: Sequence[str] | None,
    reload: Sequence[str] | None,
    *,
    gradual: bool,
) -> Chosen:
    from coordinator.revisions.choices import Chosen

    return Chosen(
        from_now=tuple(from_now or ()),
        append_from_now=tuple(map(_output_of, append or ())),
        retract=tuple(retract or ()),
        reload=tuple(reload or ()),
        gradual=gradual,
    ).normal()


def body_of(chosen: Chosen) -> dict[str, Any]:
    """What POST /revision/apply gets of them."""
    every = {
        "from_now": list(chosen.from_now),
        "append_from_now": list(chosen.append_from_now),
        "retract": list(chosen.retract),
        "reload": list(chosen.reload),
    }
    return {name: names for name, names in every.items() if names} | ({"gradual": True} if chosen.gradual else {})


def _output_of(text: str) -> str:
    name, _, how = text.partition("=")
    if not name or how != FROM_NOW:
        raise typer.BadParameter(f"{text!r}: write it as OUTPUT={FROM_NOW}", param_hint="--append")
    return name
