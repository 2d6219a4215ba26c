"""What is secret by its name, and where a known secret is found in a text."""

from __future__ import annotations

import json
from html import escape
from urllib.parse import quote

import pytest

from base import secrets
from base.secrets import (
    HIDDEN_CHARACTERS_MIN,
    MASK,
    hidden,
    hidden_in,
    is_known,
    is_secret,
    mask_value,
    mask_values,
    remember,
    remember_all,
)


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_known", secrets._Known())


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password",
        "kafka.ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.key",
        "sasl.jaas.config",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "stepwell.registry.auth",
        "spark.authenticate.secret",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.azure.account.key.shop.blob.core.windows.net",
        "spark.hadoop.javax.jdo.option.ConnectionPassword",
        "spark.ssl.keyStorePassword",
        "STEPWELL_KAFKA_SASL_PASSWORD",
        "STEPWELL_REGISTRY_AUTH",
        "AWS_SECRET_ACCESS_KEY",
        "MY_API_KEY",
        "AZURE_STORAGE_CONNECTION_STRING",
        "SASL_PASS",
        "DB_PWD",
        "PGPASS",
        "GITHUB_PAT",
        "basic.auth.user.info",
    ],
)
def test_secret_by_name(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "bootstrap.servers",
        "sasl.username",
        "ssl.key.location",
        "spark.authenticate",
        "spark.authenticate.secret.file",
        "sasl.oauthbearer.token.endpoint.url",
        "spark.hadoop.fs.s3a.aws.credentials.provider",
        "spark.kubernetes.authenticate.submission.oauthTokenFile",
        "stepwell.registry.url",
        "key",
        "stepwell.workers",
        "PWD",
        "stepwell.compat",
    ],
)
def test_not_secret_by_name(name: str) -> None:
    assert not is_secret(name)


def test_secrets_inside_other_values() -> None:
    assert mask_value("stepwell.registry.url", "https://me:hush@host/x") == f"https://{MASK}@host/x"
    assert (
        mask_value("my.jdbc", "jdbc:db://host;user=me;password=hush;x=1")
        == f"jdbc:db://host;user=me;password={MASK};x=1"
    )
    assert mask_value("configuration", "['kafka.sasl.password=hush', 1]") == f"['kafka.sasl.password={MASK}', 1]"
    options = '-Xmx1g -Djavax.net.ssl.trustStorePassword=hush -Dmy.token="a b" -Dx=y'
    assert mask_value("spark.driver.extraJavaOptions", options) == (
        f"-Xmx1g -Djavax.net.ssl.trustStorePassword={MASK} -Dmy.token={MASK} -Dx=y"
    )
    assert mask_values({"sasl.password": "hush", "sasl.username": "me"}) == {
        "sasl.password": MASK,
        "sasl.username": "me",
    }


def test_known_secrets_are_found_in_every_notation() -> None:
    value = "geheim \"&\\ wört'er"
    remember(value)
    for text in (
        value,
        json.dumps({"e": value}),
        json.dumps(value, ensure_ascii=False),
        repr(value),
        quote(value, safe=""),
        escape(value),
    ):
        assert "geheim" not in hidden(f"it said {text}, twice {text}") and MASK in hidden(text)
    assert hidden("nothing of it") == "nothing of it"


def test_each_line_of_a_key_is_hidden_and_not_what_every_key_has() -> None:
    remember("-----BEGIN PRIVATE KEY-----\nabcdefghijkl\nmnopqrstuvwx\n-----END PRIVATE KEY-----\n")
    assert hidden("line abcdefghijkl of -----BEGIN PRIVATE KEY-----") == f"line {MASK} of -----BEGIN PRIVATE KEY-----"


def test_a_short_value_is_not_searched_for() -> None:
    remember("x" * (HIDDEN_CHARACTERS_MIN - 1))
    assert hidden("x" * 7) == "x" * 7
    remember_all({"sasl.password": "long enough", "sasl.username": "long-enough-too"})
    assert is_known("long enough") and not is_known("long-enough-too")


def test_the_longer_of_two_secrets_is_replaced_whole() -> None:
    remember("password1")
    remember("password1-and-more")
    assert hidden("a password1-and-more b") == f"a {MASK} b"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("https://u:p@ss@host/x", "https://***@host/x"),
        ("https://u:p/s@s@host", "https://***@host"),
        ("http://a/x,http://u:p@ss@b", "http://a/x,http://***@b"),
        ("http://host:8081/a@b", "http://host:8081/a@b"),
        ("https://host?token=a@b&x=1", "https://host?token=***&x=1"),
        ("Password=abc def;", "Password=***;"),
        ("Server=x; Password=a b, c'd ;Timeout=3", "Server=x; Password=***;Timeout=3"),
        (
            "Server=x;Pwd='a;b';User Id=o'brien;Account Key=x'y;z=1",
            "Server=x;Pwd=***;User Id=o'brien;Account Key=***;z=1",
        ),
        ("jdbc:db://host;user=me;password=p@ss w;x=1", "jdbc:db://host;user=me;password=***;x=1"),
        ('{"password": "a\\"b, c", "x": 1}', '{"password": "***", "x": 1}'),
        ('{"auth": {"token" : 12345678}, "x": 1}', '{"auth": {"token" : ***}, "x": 1}'),
        ("{'secret': ['a', 'b'], 'x': 1}", "{'secret': ***, 'x': 1}"),
        ('"{\\"password\\": \\"hush it\\", \\"x\\": 1}"', '"{\\"password\\": \\"***\\", \\"x\\": 1}"'),
        ('{"password": "never closed, x', '{"password": "***"'),
    ],
)
def test_a_secret_inside_a_value_is_masked_to_its_end(value: str, expected: str) -> None:
    assert mask_value("an.option", value) == expected


def test_what_is_secret_inside_a_value_is_remembered() -> None:
    remember_all(
        {
            "my.database": "postgres://me:p%40ssword@host/x",
            "my.clone": "https://ghp-0123456789@host/x",
            "basic.auth.user.info": "me:of-the-registry",
            "STORE_CONNECTION_STRING": "AccountName=me;AccountKey=0123456789==;x=1",
        }
    )
    for text in ("p%40ssword", "p@ssword", "ghp-0123456789", "of-the-registry", "0123456789=="):
        assert hidden(f"it said '{text}'.") == f"it said '{MASK}'."
    assert not is_known(MASK) and not is_known("postgres://me:p%40ssword@host/x")


def test_only_the_texts_of_plain_data_are_masked() -> None:
    remember("pipeline")
    remember("12345678")
    found = hidden_in(
        {"pipeline": "pipeline", "error": "the pipeline", "n": 12345678, "in": [{"error": ("pipeline",)}, "12345678"]},
        {"pipeline"},
    )
    assert found == {"pipeline": "pipeline", "error": "the ***", "n": 12345678, "in": [{"error": [MASK]}, MASK]}
