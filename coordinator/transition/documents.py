"""The plan documents of a pipeline, each read and parsed once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol, TypeVar

from coordinator.revisions.document import PlanDocument, document_of
from coordinator.starting.errors import StateLost
from coordinator.transition.plan import TransitionFacts, TransitionPlan, facts_of
from engine.analysis.release import computed_otherwise
from engine.run.plan_document import BadDocument
from engine.run.program_document import ProgramDocument, program_of
from io_kafka.step_log.plans import digest_of

T = TypeVar("T")


class DocumentReader(Protocol):
    def document(self, topic: str, digest: str) -> str:
        """Returns the text of the document with this name; see RangeReader."""
        ...


class Documents:
    """The documents of one topic. Each name is a digest. Threads may use it beside each other, because what one of them has put here never
    changes."""

    def __init__(self, reader: DocumentReader, topic: str) -> None:
        self._reader, self._topic = reader, topic
        self._texts: dict[str, str] = {}
        self._plans: dict[str, PlanDocument] = {}
        self._programs: dict[str, ProgramDocument] = {}
        self._facts: dict[str, TransitionFacts] = {}

    def parse_ahead(self, plan: TransitionPlan) -> None:
        """Parses what a transition needs beside the steps. The pause in which it begins would be longer with it."""
        self._texts |= {digest_of(text): text for text in plan.texts}
        self.plan(plan.plan)
        self.facts(plan.plans.facts)
        for name in plan.program_names:
            self.program(name)

    def forget_all_but(self, names: Collection[str]) -> None:
        """Forgets the others, which are read again if they are needed."""
        for known in (self._texts, self._plans, self._programs, self._facts):
            for name in known.keys() - set(names):
                known.pop(name, None)

    def add_parsed(self, name: str, plan: PlanDocument) -> None:
        """Adds a plan document that was read and parsed already."""
        self._plans.setdefault(name, plan)

    def text(self, name: str) -> str | None:
        """The text of a document that is known here, also if its topic has it no more. None if it is not known."""
        caches: tuple[Mapping[str, PlanDocument | ProgramDocument | TransitionFacts], ...] = (
            self._plans,
            self._programs,
            self._facts,
        )
        made = (cache[name].text for cache in caches if name in cache)
        # Two releases may write one document in two ways, and its name is the digest of the first one.
        return self._texts.get(name) or next((text for text in made if digest_of(text) == name), None)

    def plan(self, name: str) -> PlanDocument:
        return self._look_up(self._plans, name, document_of)

    def program(self, name: str) -> ProgramDocument:
        """Raises StateLost if another release has made it that computes something in another way."""
        found = self._look_up(self._programs, name, program_of)
        otherwise = computed_otherwise(found.program.circuit, found.made_with)
        if otherwise:
            raise StateLost(
                f"{next(iter(otherwise.values()))}, and a former version has begun the transition that is under way.",
                "Run that version until the transition is settled or aborted, and then this one.",
            )
        return found

    def facts(self, name: str) -> TransitionFacts:
        return self._look_up(self._facts, name, facts_of)

    def _look_up(self, known: dict[str, T], name: str, parse: Callable[[str], T]) -> T:
        """Raises StateLost if this release cannot read it, and what the reader raises."""
        found = known.get(name)
        if found is not None:
            return found
        text = self._texts.get(name) or self._reader.document(self._topic, name)
        try:
            found = parse(text)
        except BadDocument as error:
            raise StateLost(
                f"topic {self._topic!r}: the document {name} cannot be read: {error}.",
                "If a newer Stepwell has written it, run that one. Otherwise rebuild the state with `stepwell run --full-refresh`.",
            ) from error
        known[name] = found
        return found
