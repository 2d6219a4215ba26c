"""The answers of a schema registry, whose form is checked before anything of them is used: behind its address may be any other server."""

from __future__ import annotations

from typing import Any, NamedTuple

ID_MAX = (1 << 32) - 1
"""A message has four bytes for the id of its schema."""

SHOWN_CHARACTERS_MAX = 200
"""How much of a wrong answer an error shows: enough to see what answers there."""


class WrongAnswer(Exception):
    """The answer is not of the form that a registry gives. The text says so, for people."""

    def __init__(self, wanted: str, answer: object) -> None:
        super().__init__(f"its answer has no {wanted}: {answer!r}"[:SHOWN_CHARACTERS_MAX])


class Reference(NamedTuple):
    """A schema refers to this version of a subject by a name."""

    name: str
    subject: str
    version: int


class SchemaAnswer(NamedTuple):
    """A schema as a registry answers for its id. `kind`: AVRO, PROTOBUF or JSON, as the registry calls them."""

    kind: str
    text: str
    references: tuple[Reference, ...]


def read_schema(answer: Any) -> SchemaAnswer:
    """The schema in an answer. A registry leaves the kind out for Avro, and references if there are none. Raises WrongAnswer."""
    match answer:
        case {"schema": str(text)} if _is_text(text):
            pass
        case _:
            raise WrongAnswer("text of a schema", answer)
    kind, references = answer.get("schemaType"), answer.get("references")
    if kind is not None and not _is_text(kind):
        raise WrongAnswer("kind of schema", answer)
    if references is not None and not isinstance(references, list):
        raise WrongAnswer("list of references", answer)
    return SchemaAnswer(kind or "AVRO", text, tuple(_reference(each) for each in references or ()))


def _reference(answer: Any) -> Reference:
    match answer:
        case {"name": str(name), "subject": str(subject), "version": int(version)} if _is_text(name + subject):
            return Reference(name, subject, version)
        case _:
            raise WrongAnswer("name, subject and version of a reference", answer)


def read_id(answer: Any) -> int:
    """The id of a schema in an answer. Raises WrongAnswer."""
    number = answer.get("id") if isinstance(answer, dict) else None
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= ID_MAX:
        raise WrongAnswer("id of a schema", answer)
    return number


def read_kinds(answer: Any) -> frozenset[str]:
    """The kinds of schemas in an answer. Raises WrongAnswer."""
    if not isinstance(answer, list) or not all(map(_is_text, answer)):
        raise WrongAnswer("list of kinds of schemas", answer)
    return frozenset(answer)


def read_incompatibility(answer: Any) -> str | None:
    """Why an answer says that a schema is not compatible; None if it is. Raises WrongAnswer."""
    match answer:
        case {"is_compatible": True}:
            return None
        case {"is_compatible": False}:
            messages = answer.get("messages")
            return "; ".join(map(str, messages)) if isinstance(messages, list) and messages else "it is incompatible"
        case _:
            raise WrongAnswer("is_compatible", answer)


def _is_text(value: object) -> bool:
    """Whether the value is a text of Unicode. JSON may also have halves of characters, which nothing can be sent or compiled with."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)
