"""What a service of a test says of queries."""

from __future__ import annotations

from stepwell.service.queries import NotAnswered, QueryBody


def unasked(body: QueryBody) -> bytes:
    raise NotAnswered(f"nobody answers here: {body.sql}")
