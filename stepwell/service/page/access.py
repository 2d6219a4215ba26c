"""Who may see the page. A browser has a cookie, which it gets for the token of the endpoint, or for a ticket.

    `stepwell page` --token--> ticket, good once and for a minute --in the address--> cookie

The address of a page is seen by others: it is on the command line of the browser and in its history. So it never has the token. The cookie is
derived from the token and opens nothing but the page: with it, nothing can be controlled.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time

TICKET_SECONDS_MAX = 60.0
"""A browser opens an address at once, but it may have to start."""

TICKETS_MAX = 16


class Access:
    """Access to the page of the endpoint with this token. One thread may use it at a time."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._tickets: dict[str, float] = {}
        self.cookie = hmac.new(token.encode(), b"the page of stepwell", hashlib.sha256).hexdigest()

    def is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())

    def is_cookie(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.cookie.encode())

    def new_ticket(self) -> str:
        while len(self._tickets) >= TICKETS_MAX:
            del self._tickets[next(iter(self._tickets))]
        ticket = secrets.token_urlsafe(24)
        self._tickets[ticket] = time.monotonic() + TICKET_SECONDS_MAX
        return ticket

    def take_ticket(self, given: str) -> bool:
        """Whether the ticket is good. It is not, a second time."""
        until = self._tickets.pop(given, None)
        return until is not None and time.monotonic() <= until
