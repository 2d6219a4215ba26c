"""The documents of a transition are parsed before the pause in which it begins."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from coordinator.transition import documents
from coordinator.transition.documents import Documents
from io_kafka.step_log.plans import digest_of


def test_what_was_taken_beside_the_steps_is_neither_read_nor_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def parse(text: str) -> Any:
        parsed.append(text)
        return SimpleNamespace(program=SimpleNamespace(circuit=None), made_with=None)

    for name in ("document_of", "program_of", "facts_of"):
        monkeypatch.setattr(documents, name, parse)
    monkeypatch.setattr(documents, "computed_otherwise", lambda circuit, made_with: {})

    def read(topic: str, digest: str) -> NoReturn:
        raise AssertionError(f"{digest} was read")

    texts = ("the project", "facts", "filling", "switching", "following")
    named = dict(zip(texts, map(digest_of, texts), strict=True))
    programs = tuple(named[each] for each in texts[2:])
    plan: Any = SimpleNamespace(
        texts=texts, plan=named["the project"], plans=SimpleNamespace(facts=named["facts"]), program_names=programs
    )
    taken = Documents(SimpleNamespace(document=read), "plans")  # type: ignore[arg-type]
    taken.parse_ahead(plan)
    assert sorted(parsed) == sorted(texts)
    taken.plan(named["the project"])
    taken.facts(named["facts"])
    for name in programs:
        taken.program(name)
    assert len(parsed) == len(texts), "in the pause"
