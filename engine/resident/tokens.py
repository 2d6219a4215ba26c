"""The comparison of tokens, which tells nobody how much of a guess was right."""

from __future__ import annotations

import hmac


def same_token(shown: str, expected: str) -> bool:
    """Any text may be shown, also one that is not valid Unicode."""
    return hmac.compare_digest(shown.encode("utf-8", "surrogatepass"), expected.encode())
