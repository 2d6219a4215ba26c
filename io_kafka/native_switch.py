"""The switch of the C extensions. Each has an equivalent in Python, which is used if the extension was not built."""

from __future__ import annotations

import os

SWITCH = "STEPWELL_NATIVE"
NOT_BUILT = "it was not built: there was no C compiler when Stepwell was installed"


def why_off() -> str | None:
    """Why no extension is used, as a text for users; None if nothing forbids it."""
    return f"{SWITCH} is 0" if os.environ.get(SWITCH) == "0" else None
