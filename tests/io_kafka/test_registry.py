"""The client of a schema registry: what is asked once, what is asked again, and what an error says."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from io_kafka.errors import RegistryRefused, RegistryUnreachable
from io_kafka.registry import client
from io_kafka.registry.address import RegistryAddress
from io_kafka.registry.client import Registry, UnknownSchema
from tests.schema_registry import SchemaRegistry, schema_registry

AUTH = "me:a:secret"


@pytest.fixture(scope="module")
def served() -> Iterator[SchemaRegistry]:
    with schema_registry(AUTH) as found:
        yield found


@pytest.fixture
def registry(served: SchemaRegistry) -> Registry:
    served.asked.clear()
    served.instead = None
    return Registry(RegistryAddress(served.url, AUTH))


def test_a_schema_is_looked_up_once(served: SchemaRegistry, registry: Registry) -> None:
    number = served.add("t-value", '"long"')
    assert [registry.schema(number).text for _ in range(3)] == ['"long"'] * 3
    assert served.asked == [f"GET /schemas/ids/{number}"]


def test_an_unknown_id_is_asked_for_a_few_times_and_then_remembered(served: SchemaRegistry, registry: Registry) -> None:
    for _ in range(2):
        with pytest.raises(UnknownSchema, match="schema id 77 is not in the registry http://127"):
            registry.schema(77)
    assert served.asked == ["GET /schemas/ids/77"] * client.UNKNOWN_ATTEMPTS


def test_what_a_schema_refers_to_comes_before_it(served: SchemaRegistry, registry: Registry) -> None:
    served.add("inner", '"int"')
    served.add("middle", '"long"', references=[{"name": "x.Inner", "subject": "inner", "version": 1}])
    places = [{"name": f"x.{name.title()}", "subject": name, "version": 1} for name in ("middle", "inner")]
    number = served.add("outer", '"string"', references=places)
    assert registry.schema(number).references == (("x.Inner", '"int"'), ("x.Middle", '"long"'))


def test_a_registry_that_is_busy_is_asked_again(served: SchemaRegistry, registry: Registry) -> None:
    number = served.add("t-value", '"float"')
    served.busy = 2
    assert registry.schema(number).text == '"float"'
    assert len(served.asked) == 3


def test_a_registry_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "RETRY_SECONDS_MAX", 0.3)
    with pytest.raises(
        RegistryUnreachable, match=r"http://127\.0\.0\.1:1 gives no answer while looking up schema id 5: Conn"
    ):
        Registry(RegistryAddress("http://127.0.0.1:1")).schema(5)


def test_a_password_that_is_wrong_is_named_and_not_shown(served: SchemaRegistry) -> None:
    address = RegistryAddress(served.url, "me:wrong-secret")
    with pytest.raises(RegistryRefused, match=r"401.*stepwell\.registry\.auth") as caught:
        Registry(address).schema(5)
    assert "secret" not in f"{caught.value} {caught.value.__dict__} {address}"
    assert pickle.loads(pickle.dumps(address)) == address


def test_the_same_schema_gets_the_same_id(served: SchemaRegistry, registry: Registry) -> None:
    first = registry.register("a b-value", '{"type":"int"}')
    assert registry.register("a b-value", '{"type":"int"}') == first
    assert served.subjects["a b-value"] == [first]


def test_an_incompatible_schema_is_refused(served: SchemaRegistry, registry: Registry) -> None:
    served.refuse = 409, "Schema being registered is incompatible"
    try:
        with pytest.raises(RegistryRefused, match=r"subject t-value: it answers 409: .*incompatible.*compatibility"):
            registry.register("t-value", '"int"')
    finally:
        served.refuse = None


USES: dict[str, Callable[[Registry], object]] = {
    "schema": lambda registry: registry.schema(5),
    "register": lambda registry: registry.register("t-value", '"int"'),
    "kinds": lambda registry: registry.kinds(),
    "why_incompatible": lambda registry: registry.why_incompatible("t-value", '"int"', "AVRO"),
}


@pytest.mark.parametrize(
    "body",
    [
        b"default backend - 404",
        b"<html>404</html>",
        b"",
        b"[40403]",
        b'"40403"',
        b'{"detail":"Not Found"}',
        b'{"error_code":404,"message":"HTTP 404 Not Found"}',  # of a registry of Confluent, for a path that it does not know
        b'{"error_code":"40403"}',
        b"[" * 100_000,
    ],
)
@pytest.mark.parametrize("use", USES)
def test_a_404_that_no_registry_gives_is_no_answer(served: SchemaRegistry, use: str, body: bytes) -> None:
    registry = Registry(RegistryAddress(served.url, AUTH), patience_s=0.0)
    served.instead = 404, body, {}
    with pytest.raises(
        RegistryUnreachable, match=r"gives no answer while .*: it answers 404 as no registry does.*proxy"
    ):
        USES[use](registry)
    served.instead = None
    if use == "schema":
        number = served.add("t-value", '"double"')
        assert registry.schema(number).text == '"double"'


def test_a_404_that_no_registry_gives_is_asked_again(
    served: SchemaRegistry, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy answers so while the registry behind it is started again."""
    number = served.add("t-value", '"bytes"')
    served.instead = 404, b"no backend", {}

    def wait(seconds: float) -> None:
        served.instead = None

    monkeypatch.setattr("tenacity.nap.time.sleep", wait)
    assert registry.schema(number).text == '"bytes"'
    assert served.asked == [f"GET /schemas/ids/{number}"] * 2


def test_a_registry_from_before_there_were_other_schemas_has_those_of_avro(
    served: SchemaRegistry, registry: Registry
) -> None:
    served.kinds, before = (), served.kinds
    try:
        assert registry.kinds() == {"AVRO"}
    finally:
        served.kinds = before
    assert registry.kinds() == {"AVRO", "JSON", "PROTOBUF"}


def test_what_a_registry_says_does_not_exist_is_believed(served: SchemaRegistry, registry: Registry) -> None:
    """Of a subject, a version, and of a schema of a subject that was deleted."""
    for code in (40401, 40402, 40403, 40406):
        served.instead = 404, b'{"error_code":%d,"message":"not found"}' % code, {}
        with pytest.raises(UnknownSchema):
            registry.schema(code)
        assert registry.why_incompatible("t-value", '"int"', "AVRO") is None
        with pytest.raises(RegistryRefused, match=str(code)):
            registry.register("t-value", '"int"')


NONSENSE: list[Any] = [
    5, [], None, "x", True, {}, [None], [[]], {"schema": None}, {"schema": 5}, {"id": None}, {"id": True}, {"id": -1}, {"id": 1 << 32},
    {"is_compatible": None}, {"is_compatible": "no"}, {"schema": '"\ud800"'},
]  # fmt: skip
REFERENCES: list[Any] = [
    5, "x", {}, {"a": 1}, [None], [{"name": "x"}], [{"name": "x", "subject": "s", "version": "1"}], [{"name": 1, "subject": "s", "version": 1}],
    [{"name": "x", "subject": "\ud800", "version": 1}],
]  # fmt: skip


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("answer", NONSENSE)
def test_an_answer_of_another_form_is_refused(
    served: SchemaRegistry, registry: Registry, use: str, answer: Any
) -> None:
    """Whatever was asked for."""
    if answer == [] and use == "kinds":
        return  # a registry without any kind of schema
    served.instead = 200, json.dumps(answer).encode(), {}
    with pytest.raises(RegistryRefused, match=r"refuses .*: its answer has no .*Name the registry itself"):
        USES[use](registry)


@pytest.mark.parametrize("more", [*({"references": each} for each in REFERENCES if each), {"schemaType": 5}])
def test_a_schema_with_parts_of_another_form_is_refused(
    served: SchemaRegistry, registry: Registry, more: dict[str, Any]
) -> None:
    served.instead = 200, json.dumps({"schema": '"int"', **more}).encode(), {}
    with pytest.raises(RegistryRefused, match="its answer has no"):
        registry.schema(5)


@pytest.mark.parametrize("body", [b"<html>log in</html>", b"", b"\xff", b"[" * 100_000])
@pytest.mark.parametrize("use", USES)
def test_an_answer_that_is_no_json_is_refused(
    served: SchemaRegistry, registry: Registry, use: str, body: bytes
) -> None:
    served.instead = 200, body, {}
    with pytest.raises(RegistryRefused, match=r"its answer is not JSON\. Name the registry itself"):
        USES[use](registry)


def test_what_a_schema_leaves_out_may_be_null(served: SchemaRegistry, registry: Registry) -> None:
    served.instead = 200, b'{"schema":"\\"int\\"","schemaType":null,"references":null}', {}
    assert registry.schema(5) == ("AVRO", '"int"', ())


def test_schemas_that_refer_to_each_other_are_refused(served: SchemaRegistry, registry: Registry) -> None:
    places = [{"name": f"x.{name}", "subject": name, "version": 1} for name in ("one", "two")]
    served.add("two", '"long"', references=places[:1])
    number = served.add("one", '"int"', references=places[1:])
    with pytest.raises(
        RegistryRefused, match="version 1 of subject two: it refers to itself, or others to it in a circle"
    ):
        registry.schema(number)


def test_a_redirect_says_where_it_leads(served: SchemaRegistry, registry: Registry) -> None:
    """Without the password and the token in it."""
    location = "https://me:hidden@login.example/oauth?token=hidden"
    served.instead = 302, b"", {"location": location}
    with pytest.raises(RegistryRefused, match=r"answers 302, a redirect.*to https://login\.example/oauth,") as caught:
        registry.schema(5)
    assert "hidden" not in str(caught.value)
