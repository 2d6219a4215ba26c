"""The status codes of the control endpoint, which its server and its client share."""

from __future__ import annotations

MALFORMED = 400
UNAUTHORIZED = 401
UNKNOWN = 404
REFUSED = 409
FAILED = 500
