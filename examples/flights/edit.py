"""Changes a view of the demo's project while the service runs, as a user does: edits the file, and runs `stepwell apply`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.flights.service import Service
from io_kafka.step_log.state import StepLogState

FILE = Path("transformations/views.sql")
VIEW, BEFORE, AFTER = "busy_routes", "HAVING count(*) >= 2000", "HAVING count(*) >= 1000"
"""The aggregate below the HAVING is kept, so no message of a source has to be read again."""


@dataclass(frozen=True)
class Edited:
    """`kept_share`: of the state, as the plan tells it. `rows_read`: of state, at most, to fill the new nodes. `filling_s`, `seconds` and
    `paused_ms`: see TransitionEnded. `messages`: what the view's output received in the step of the switch, as the step log has it."""

    view: str
    before: str
    after: str
    kept_share: float
    rows_read: int | None
    filling_s: float
    seconds: float
    paused_ms: float
    step: int
    messages: int


def edit(project: Path, service: Service) -> dict[str, Any]:
    """Edits the definition in the folder `project`, and applies it. Returns what `stepwell apply` says. Raises ServiceFailed."""
    file = project / FILE
    text = file.read_text()
    assert text.count(BEFORE) == 1, f"{file} has not the definition that the demo edits"
    file.write_text(text.replace(BEFORE, AFTER))
    return service.answer("apply", "--yes")


def edited_as(answer: Mapping[str, Any], log: StepLogState) -> Edited:
    """`answer`: of `stepwell apply`. `log` has the step of the switch."""
    plan, ended = answer["plan"], answer["transition_last"]
    outputs = log.step_records[ended["step"]].outputs
    return Edited(
        view=VIEW,
        before=BEFORE,
        after=AFTER,
        kept_share=plan["kept_share"],
        rows_read=plan["rows"],
        filling_s=ended["filling_s"],
        seconds=ended["seconds"],
        paused_ms=ended["pause_ms"],
        step=ended["step"],
        messages=sum(part.messages for part in outputs if part.handle == VIEW),
    )
