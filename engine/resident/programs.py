"""The programs that a worker knows, each by the name of its document (engine/run/program_document.py).

PrefetchPrograms         the documents of a transition are read beside the steps, before one of them is needed
AdoptProgram    the worker runs the program of one of them; those of other revisions stay readable
Read            the views of a revision are read by the program that this revision has
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.analysis.filling import Program
from engine.resident.messages import AdoptProgram, PrefetchPrograms
from engine.run.program_document import ProgramDocument, program_of
from engine.run.tasks import InputReader


class Programs:
    """The programs that a worker has, or has fetched for later. `name`: that of the document that was adopted; empty before."""

    def __init__(self, revision: int, program: Program) -> None:
        self.name = ""
        self._documents: dict[str, ProgramDocument] = {}
        self._prefetched: Mapping[str, ProgramDocument] = {}  # replaced as a whole, by another thread
        self._by_revision = {revision: program}

    def of_revision(self, revision: int) -> Program:
        return self._by_revision[revision]

    def prefetch(self, order: PrefetchPrograms, reader: InputReader) -> None:
        """Reads the documents of an order. Raises BadDocument. May run in another thread than `adopt`."""
        self._prefetched = {digest: _document_of(reader, order.topic, digest) for digest in order.digests}

    def adopt(self, order: AdoptProgram, reader: InputReader) -> ProgramDocument:
        """The document of the program that the worker runs from now on. Raises BadDocument."""
        document = self._document(reader, order.topic, order.digest)
        for number, digest in order.readable.items():
            self._by_revision[number] = self._document(reader, order.topic, digest).program
        for digest in order.later:
            self._document(reader, order.topic, digest)
        needed = {order.digest, *order.readable.values(), *order.later}
        self._documents = {digest: known for digest, known in self._documents.items() if digest in needed}
        self.name = order.digest
        return document

    def _document(self, reader: InputReader, topic: str, digest: str) -> ProgramDocument:
        if digest not in self._documents:
            self._documents[digest] = self._prefetched.get(digest) or _document_of(reader, topic, digest)
        return self._documents[digest]


def _document_of(reader: InputReader, topic: str, digest: str) -> ProgramDocument:
    found = program_of(reader.document(topic, digest))
    found.program.plan.check()  # its stages are planned now, and not when a step waits
    return found
