"""Scala's collections, as the gateway to the JVM gives them."""

from __future__ import annotations

from typing import Any


def scala_items(collection: Any) -> list[Any]:
    """The items of a Scala collection: a sequence, a set, a map (whose items are pairs) or an Option. Each costs one round trip."""
    vector = collection.iterator().toVector()
    return [vector.apply(index) for index in range(vector.size())]
