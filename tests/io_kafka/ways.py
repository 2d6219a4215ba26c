"""A mark for tests of what messages carry, which is produced and consumed by other code with the C extension than without it."""

from __future__ import annotations

import pytest

IN_BOTH_WAYS = pytest.mark.parametrize("way", ["by objects", "natively"], indirect=True)
"""The fixture is in conftest.py. A test of claims, fences, deadlines or processes does not need it: there, the same code runs either way."""
