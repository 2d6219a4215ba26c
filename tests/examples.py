"""How many examples a property test tries: some in the suite, and many more in `make soak`."""

from __future__ import annotations

import os

SHARE = float(os.environ.get("TEST_EXAMPLES", "0.25"))
"""Of the number that a test names. Each run draws other examples, so a few runs of the suite try as many as one run with all."""

FEWEST = 10
"""A mistake that most examples show is noticed by so many, whatever the share is."""


def examples(count: int) -> int:
    return max(min(count, FEWEST), round(count * SHARE))
