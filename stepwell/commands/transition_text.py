"""A transition to another revision in words, for `apply`, `revision` and `status`. `transition` and `ended` are those of a status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markup import escape
from rich.table import Table

from base.sizes import share_text
from stepwell.commands.common import plain_table
from stepwell.commands.layout_text import pause_text, percent, share_bar, time_text

Transition = Mapping[str, Any]

IN_WORDS = {
    "preparing": "being prepared",
    "filling": "being filled",
    "ready": "filled, and the switch comes at the next boundary",
    "held": "held",
    "detached": "detached",
    "switching": "switching",
    "clearing": "the tables that no revision needs are being removed",
}

WAITING = frozenset({"held", "detached"})
"""The phases in which a transition waits for the user, whoever has begun it."""

GOES_ON = "`stepwell revision show` shows how far it is."


def transition_text(transition: Transition) -> str:
    """One line: what it leads to, how far it is, and why it stands still if it does."""
    number, phase = transition["number"], transition["phase"]
    parts = [IN_WORDS[phase]]
    is_filled = (
        phase == "filling" and transition["filled"] >= 1
    )  # the differences are counted before the switch is decided
    if is_filled:
        parts = ["filled, and what differs is being counted"]
    if phase in ("preparing", "filling") and transition["is_paused"]:
        parts = ["paused"]
    if phase == "filling" and not is_filled:
        parts.append(f"{percent(transition['filled'])} filled")
        if (left := transition["seconds_left"]) and not transition["is_paused"]:
            parts.append(f"{'about ' if left >= 1 else ''}{time_text(left)} to go")
    if transition.get("drained") is not None:
        parts.append(f"{percent(transition['drained'])} of what differs has left")
    why = transition["held_because"] if phase == "held" else transition["error"]
    return f"revision {number - 1} -> {number}: {', '.join(parts)}" + (f": {why}" if why else "")


def ways_out(transition: Transition) -> list[str]:
    """What the user can do about a transition that stands still, in one sentence for each."""
    stays = (
        f"`stepwell revision abort` takes everything back, and revision {transition['number'] - 1} stays. Then `stepwell apply` can begin "
        "another change."
    )
    match transition["phase"]:
        case "held":
            accepts = [f"It accepts the rows in error: {told}"] if (told := in_error_text(transition)) else []
            return [
                "`stepwell revision switch` makes the switch, or says why it still cannot be made.",
                *accepts,
                stays,
            ]
        case "detached":
            return ["`stepwell revision resume` fills the new nodes again from the beginning.", stays]
        case _:
            return ["`stepwell revision resume` goes on with it."] if transition["is_paused"] else []


def in_error_text(transition: Transition) -> str:
    """What the switch does to the views that it puts in error; empty if there are none. A service of a former release does not report them."""
    views = transition.get("in_error") or ()
    if not views:
        return ""
    subject, behind = (f"view {views[0]} is", "it") if len(views) == 1 else (f"views {', '.join(views)} are", "them")
    return f"{subject} in error from then on, and nothing is written to the outputs behind {behind} until the rows in error are corrected."


def differences_table(differences: list[dict[str, Any]]) -> Table:
    table = plain_table("view", "rows that come", "rows that go")
    for column in table.columns[1:]:
        column.justify = "right"
    for each in differences:
        table.add_row(escape(each["view"]), f"{each['come']:,}", f"{each['gone']:,}")
    return table


def views_text(views: Mapping[str, list[str]]) -> str:
    """The views that differ, in a line for each kind."""
    return "\n".join(f"{kind}: {', '.join(names)}" for kind, names in views.items() if names)


def options_text(choices: Mapping[str, Any] | None) -> str:
    """The options that the user has given. A service of a former release has none."""
    if choices is None:
        return ""
    options = [f"--from-now {name}" for name in choices["from_now"]]
    options += [f"--append {name}=from-now" for name in choices["append_from_now"]]
    options += [f"--retract {name}" for name in choices["retract"]]
    options += [f"--reload {name}" for name in choices.get("reload", ())]
    options += ["--gradual"] if choices.get("gradual") else []
    return ", ".join(options)


def ended_text(ended: Mapping[str, Any], kept_share: float | None = None) -> str:
    """How a transition has ended, in one line. `kept_share`: of the state, as the plan has told it."""
    number, step, took = ended["number"], f"{ended['step']:,}", time_text(ended["seconds"])
    if ended["outcome"] == "aborted":
        return f"the transition to revision {number} was aborted after {took}; revision {number - 1} stays in force"
    count = ended["messages"]
    messages = (
        f"the outputs that it concerns received {count:,} message{'s' * (count > 1)} in that step"
        if count
        else "no output received a message because of it"
    )
    kept = "" if kept_share is None else f"{share_text(kept_share)} of the state was kept; "
    pause = pause_text(ended["pause_ms"] / 1e3)
    return (
        f"revision {number} is in force from step {step} on: {kept}it took {took}, no step could begin for {pause}, and "
        f"{messages}"
    )


class TransitionBar:
    """A transition under way: what `transition_text` says, and on a terminal a bar of what is filled."""

    def __init__(self, transition: Transition) -> None:
        self._transition = transition

    def __str__(self) -> str:
        return transition_text(self._transition)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if console.is_terminal:
            yield share_bar(None if self._transition["phase"] == "preparing" else self._transition["filled"])
        yield escape(str(self))


def whole_text(transition: Transition) -> list[RenderableType]:
    """All that is known of a transition under way."""
    parts: list[RenderableType] = [TransitionBar(transition)]
    if options := options_text(transition.get("choices")):
        parts.append(escape(f"It was asked for with {options}."))
    if transition["views"] is not None and (views := views_text(transition["views"])):
        parts.append(escape(views))
    if transition["differences"]:
        parts.append(differences_table(transition["differences"]))
    elif transition["differences"] is not None and transition["views"] and transition["views"]["rebuilt"]:
        parts.append("No row of a changed view differs.")
    return parts + ways_out(transition)
