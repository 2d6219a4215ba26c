"""What a user has chosen for the way to another project, beside its files."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from base.fault import ExitCode, Fault
from io_kafka.step_log.revision_records import Choices


class ChoiceRefused(Fault):
    """A choice names nothing that the project has, or has no effect."""

    exit_code = ExitCode.PROJECT


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """`from_now`: the sources that new nodes count from the present positions on. `append_from_now`: the append outputs that get only what comes
    out from the switch on. `retract`: the outputs of the former project whose content is taken back. Sources and outputs are named as the
    project has them. `reload`: the batch tables that are loaded again, as the user names them (loads.py). `gradual`: what differs leaves in
    several steps."""

    from_now: tuple[str, ...] = ()
    append_from_now: tuple[str, ...] = ()
    retract: tuple[str, ...] = ()
    reload: tuple[str, ...] = ()
    gradual: bool = False

    @property
    def is_nothing(self) -> bool:
        return self == NOTHING_CHOSEN

    def to_json(self) -> dict[str, Any]:
        return {
            "from_now": list(self.from_now),
            "append_from_now": list(self.append_from_now),
            "retract": list(self.retract),
            "reload": list(self.reload),
            "gradual": self.gradual,
        }

    def normal(self) -> Chosen:
        """Each once, in order, so that equal choices are equal."""
        return Chosen(
            from_now=_once(self.from_now),
            append_from_now=_once(self.append_from_now),
            retract=_once(self.retract),
            reload=_once(self.reload),
            gradual=self.gradual,
        )


NOTHING_CHOSEN = Chosen()


def recorded_choices(choices: Choices) -> Chosen:
    """Returns the choices as the intent of a transition has them."""
    return Chosen(
        from_now=choices.from_now,
        append_from_now=choices.append_from_now,
        retract=choices.retract,
        reload=choices.reload,
        gradual=choices.gradual,
    )


def check_known(option: str, what: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raises ChoiceRefused for a name that is none of these."""
    for name in given:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise ChoiceRefused(
                f"{option} {name}: the project has no {what} of this name.", f"Those that it can name are: {listed}."
            )


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))
