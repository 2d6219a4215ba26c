"""The client of a schema registry: schemas by id, and the registration of what outputs write.

Guarantees: the text of a schema never changes under its id, so each id is looked up once in the life of a process. That an id is unknown is
remembered too. Only a registry can say so: a 404 without one of its error codes comes from a proxy without a backend, or from a server that is
no registry, and counts as no answer. A registry that does not answer is asked again for RETRY_SECONDS_MAX, and then RegistryUnreachable names
it. No error and no log shows the password.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

import tenacity

from io_kafka.errors import RegistryRefused, RegistryUnreachable, SchemaGone
from io_kafka.registry.address import RegistryAddress
from io_kafka.registry.answers import SchemaAnswer, WrongAnswer, read_id, read_incompatibility, read_kinds, read_schema
from io_kafka.registry.unknown import judgement

if TYPE_CHECKING:
    import httpx

RETRY_SECONDS_MAX = 20.0
"""A worker counts as stalled after 30 s by default, and this has to end before."""

RETRY_WAIT_SECONDS_MAX = 2.0
"""Between two attempts. The first ones follow each other sooner."""

ANSWER_SECONDS_MAX = 5.0
"""The time for one answer. A schema has some kilobytes."""

UNKNOWN_ATTEMPTS = 3
"""An id is given out before any message has it, but a registry's replica may lag behind its leader for a moment."""

REFERENCES_MAX = 200
"""How many references one schema may have, with those of its references. More of them are a circle or a mistake."""

_MISSING_CODES = range(40400, 40500)
"""The `error_code` of what does not exist: 40401 for a subject, 40402 for a version, 40403 for a schema. Registries of Confluent, Apicurio,
Karapace and Redpanda have these. Their 404 for a path that they do not know has another code, or none."""

_NO_SCHEMA = 0
"""Registries count ids of schemas from 1."""

_NAME_IT = (
    "Name the registry itself in 'schema.registry.url' or `stepwell.registry.url`, with the path if its API has one."
)

_IS_IT_ONE = f"{_NAME_IT} Another server answers there, or a proxy or a page for logins before the registry."

_NOBODY = "it answers 404 as no registry does, so it is another server, or a proxy that does not reach one"

_REASON_CHARACTERS_MAX = 300


T = TypeVar("T")

_References: TypeAlias = dict[tuple[str, int], tuple[str, str] | None]
"""(name, text) by subject and version; None while those that it refers to itself are looked up."""


class UnknownSchema(Exception):
    """The registry has no schema of this id."""


class RegisteredSchema(NamedTuple):
    """A schema of a registry, with those that it refers to. `kind`: AVRO, PROTOBUF or JSON, as the registry calls them. `references`: (name,
    text) of the schemas that it refers to, each behind those that it refers to itself."""

    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()


class _Missing(Exception):
    """The registry answers that something does not exist."""


class _Busy(Exception):
    """No answer, or one that another attempt may improve."""


class _NoRegistry(Exception):
    """An answer 404 that no registry gives to a path that it knows."""


class Registry:
    def __init__(self, address: RegistryAddress, patience_s: float | None = None) -> None:
        """`patience_s`: how long a registry that does not answer is asked again; None is RETRY_SECONDS_MAX."""
        self.address = address
        self._patience_s = patience_s
        self._known: dict[int, RegisteredSchema | None] = {}
        self._lock = threading.Lock()

    def schema(self, number: int) -> RegisteredSchema:
        """The schema of an id. Raises UnknownSchema, RegistryUnreachable and RegistryRefused; SchemaGone in the replay of a step that had it."""
        present = judgement()
        with self._lock:
            found = self._known.get(number)
            # Another worker may have read these messages in the first run, at a moment when the id was known.
            if number not in self._known or (found is None and present.recorded is not None):
                found = self._known[number] = self._look_up(number)
        if found is None and present.recorded is not None:
            raise SchemaGone(self.address.url, number)
        if found is None:
            raise self._unknown(number)
        return found

    def check_counts(self, number: int) -> None:
        """Raises UnknownSchema if this is the replay of a step in which the id counted as unknown, whatever is known of it by now."""
        if number in (judgement().recorded or ()):
            raise self._unknown(number)

    def _unknown(self, number: int) -> UnknownSchema:
        judgement().found.add(number)
        return UnknownSchema(f"schema id {number} is not in the registry {self.address.url}")

    def register(self, subject: str, text: str, kind: str = "AVRO") -> int:
        """The id of a schema under a subject. The registry gives the same id for the same text. Raises RegistryRefused if it is not compatible
        with what the subject has."""
        doing = f"registering the schema of subject {subject}"
        try:
            answer = self._ask("POST", f"/subjects/{quote(subject, safe='')}/versions", doing, _body(text, kind))
        except _Missing as fault:
            raise RegistryRefused(self.address.url, doing, str(fault)) from None
        return self._read(read_id, answer, doing)

    def kinds(self) -> frozenset[str]:
        """The kinds of schemas that the registry has, as it calls them. Raises RegistryUnreachable and RegistryRefused."""
        doing = "asking for its kinds of schemas"
        try:
            answer = self._ask("GET", "/schemas/types", doing, is_known=False)
        except _Missing:
            return frozenset({"AVRO"})
        except _NoRegistry:  # a registry from before there were others, if it is one
            self._confirm(doing)
            return frozenset({"AVRO"})
        return self._read(read_kinds, answer, doing)

    def why_incompatible(self, subject: str, text: str, kind: str) -> str | None:
        """Why a schema would be refused under a subject; None if it would not be, or if the subject has none yet. Nothing is registered."""
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest?verbose=true"
        doing = f"comparing a schema with those of subject {subject}"
        try:
            answer = self._ask("POST", path, doing, _body(text, kind))
        except _Missing:
            return None
        reason = self._read(read_incompatibility, answer, doing)
        return None if reason is None else reason[:_REASON_CHARACTERS_MAX]

    def _confirm(self, doing: str) -> None:
        """Raises RegistryUnreachable and RegistryRefused unless a registry answers at this address."""
        with suppress(_Missing):  # which only a registry says
            self._ask("GET", f"/schemas/ids/{_NO_SCHEMA}", doing)

    def _look_up(self, number: int) -> RegisteredSchema | None:
        doing = f"looking up schema id {number}"
        path = f"/schemas/ids/{number}"
        attempts = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(UNKNOWN_ATTEMPTS),
            wait=tenacity.wait_exponential(multiplier=0.1),
            retry=tenacity.retry_if_exception_type(_Missing),
            reraise=True,
        )
        try:
            answer = attempts(self._ask, "GET", path, doing)
        except _Missing:
            return None
        schema = self._read(read_schema, answer, doing)
        references: _References = {}
        self._add_references(schema, references)
        return RegisteredSchema(schema.kind, schema.text, tuple(found for found in references.values() if found))

    def _add_references(self, schema: SchemaAnswer, found: _References) -> None:
        """Adds what the schema refers to, each behind what it refers to itself."""
        for each in schema.references:
            place = each.subject, each.version
            doing = f"looking up version {each.version} of subject {each.subject}"
            if found.get(place):
                continue
            if place in found:
                raise RegistryRefused(self.address.url, doing, "it refers to itself, or others to it in a circle")
            if len(found) >= REFERENCES_MAX:
                raise RegistryRefused(self.address.url, doing, f"a schema refers to more than {REFERENCES_MAX} others")
            found[place] = None
            path = f"/subjects/{quote(each.subject, safe='')}/versions/{each.version}"
            try:
                other = self._read(read_schema, self._ask("GET", path, doing), doing)
            except _Missing:
                raise RegistryRefused(self.address.url, doing, "a schema refers to it, and it does not exist") from None
            self._add_references(other, found)
            del found[place]  # its place is behind those
            found[place] = each.name, other.text

    def _read(self, read: Callable[[Any], T], answer: Any, doing: str) -> T:
        """What `read` finds in an answer. Raises RegistryRefused if it is of another form."""
        try:
            return read(answer)
        except WrongAnswer as fault:
            raise RegistryRefused(self.address.url, doing, str(fault), _IS_IT_ONE) from None

    def _ask(self, method: str, path: str, doing: str, body: Any = None, *, is_known: bool = True) -> Any:
        """What the registry answers. `is_known`: every registry knows the path, so that _NoRegistry is no answer. Otherwise it is raised at
        once. Raises _Missing, RegistryUnreachable and RegistryRefused."""
        no_answer = (_Busy, _NoRegistry) if is_known else (_Busy,)
        attempts = tenacity.Retrying(
            stop=tenacity.stop_after_delay(RETRY_SECONDS_MAX if self._patience_s is None else self._patience_s),
            wait=tenacity.wait_exponential(multiplier=0.1, max=RETRY_WAIT_SECONDS_MAX),
            retry=tenacity.retry_if_exception_type(no_answer),
            reraise=True,
        )
        try:
            return attempts(self._ask_once, method, path, doing, body)
        except no_answer as fault:
            raise RegistryUnreachable(self.address.url, doing, str(fault)) from None

    def _ask_once(self, method: str, path: str, doing: str, body: Any) -> Any:
        import httpx  # a worker that reads JSON only should not wait for it

        user, _, password = (self.address.auth or "").partition(":")
        try:
            answer = httpx.request(
                method,
                self.address.url + path,
                json=body,
                auth=(user, password) if self.address.auth else None,
                timeout=ANSWER_SECONDS_MAX,
                headers={"Accept": "application/vnd.schemaregistry.v1+json, application/json"},
                verify=_authorities(),
            )
        except httpx.InvalidURL as fault:
            raise RegistryRefused(self.address.url, doing, f"it is no URL: {fault}") from None
        except httpx.HTTPError as fault:
            raise _Busy(f"{type(fault).__name__}: {fault}"[:_REASON_CHARACTERS_MAX]) from None
        if answer.status_code >= 500 or answer.status_code == 429:
            raise _Busy(f"it answers {answer.status_code}")
        if answer.has_redirect_location:
            place = _place_of(answer.headers["location"])
            what_to_do = (
                f"{_NAME_IT} This leads to {place}, and is not followed, so that the password goes nowhere else."
            )
            raise RegistryRefused(self.address.url, doing, f"it answers {answer.status_code}, a redirect", what_to_do)
        if answer.status_code != 200:
            reason = f"it answers {answer.status_code}: {answer.text}"[:_REASON_CHARACTERS_MAX]
            if answer.status_code == 404 and not _is_of_registry(answer):
                raise _NoRegistry(f"{_NOBODY}: {answer.text}"[:_REASON_CHARACTERS_MAX])
            if answer.status_code == 404:
                raise _Missing(reason)
            raise RegistryRefused(self.address.url, doing, reason)
        try:
            return answer.json()
        except (ValueError, RecursionError):
            raise RegistryRefused(self.address.url, doing, "its answer is not JSON", _IS_IT_ONE) from None


def _is_of_registry(answer: httpx.Response) -> bool:
    """Whether a registry has written an answer 404."""
    try:
        found = answer.json()
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("error_code") in _MISSING_CODES


def _place_of(location: str) -> str:
    """Where a redirect leads, without what may be secret."""
    try:
        parts = urlsplit(location)
    except ValueError:
        return "what is no URL"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))[:_REASON_CHARACTERS_MAX]


@cache
def _authorities() -> ssl.SSLContext:
    """The authorities that this process trusts. They are read once, because that takes 40 ms, ten times as long as an answer."""
    import httpx

    return httpx.create_ssl_context()


def _body(text: str, kind: str) -> dict[str, str]:
    return {"schema": text} if kind == "AVRO" else {"schema": text, "schemaType": kind}


@lru_cache(maxsize=64)  # a project has one or a few
def registry_at(address: RegistryAddress) -> Registry:
    """The client of this process for a registry, with what it knows already."""
    return Registry(address)
