"""The client of a schema registry: what is asked once, what is asked again, and what an error says."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

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
