"""What a user wants of a start if the files have another project than the state."""

from __future__ import annotations

from typing import Literal

OnChange = Literal["refuse", "apply", "keep"]
"""The start is refused; it begins a transition to the project of the files; or it runs the recorded project, whatever is in the files."""
