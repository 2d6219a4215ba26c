"""What users ask of automatic layouts while the service runs. It is refused as other requests of the layout are (RescaleRefused)."""

from __future__ import annotations

from dataclasses import dataclass

from io_kafka.step_log.layout_records import AutoBounds


@dataclass(frozen=True)
class AutoRequest:
    """From now on Stepwell chooses the number of workers within these bounds; None: it does not any more."""

    bounds: AutoBounds | None
