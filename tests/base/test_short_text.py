"""The advice of a long error is whole, and what is cut ends behind a word."""

from __future__ import annotations

import pytest

from base.short_text import CHARACTERS_MAX, MESSAGE_CHARACTERS_MIN, short_text
from engine.errors import DataError
from io_kafka.errors import KafkaFault
from storage.remote.answers import fault_of

KEY = "pipelines/" + "/".join(f"{n:032x}" for n in range(8)) + "/base.pack"

DENIED = OSError(
    f"When reading information for key '{KEY}' in bucket 'bucket': AWS Error ACCESS_DENIED during HeadObject operation: "
    + "No response body, and a page of words. " * 40
)


def test_a_short_error_is_whole() -> None:
    fault = KafkaFault("it is down.", "Start it.")
    assert short_text(fault) == str(fault)
    assert short_text(ValueError("no advice")) == "no advice"


def test_the_place_of_an_error_stays() -> None:
    fault = DataError("it is malformed " * 100, "Correct it.").locate(owner="source s", place="offset 4", step=7)
    text = short_text(fault)
    assert text.startswith("source s, offset 4, step 7: it is malformed") and text.endswith("... Correct it.")


def test_the_advice_of_a_refused_store_is_whole() -> None:
    fault = fault_of(DENIED, "s3://bucket/prefix", "write", KEY)
    text = short_text(fault)
    assert text.endswith("... " + fault.what_to_do) and len(text) <= CHARACTERS_MAX
    assert text.startswith("The checkpoint store s3://bucket/prefix refuses to read pipelines/000000000000000000...0")
    assert "7/base.pack: When reading information" in text


@pytest.mark.parametrize("advice", ["Do it.", ("Do it. " * 100).strip()])
def test_a_message_keeps_its_beginning_and_ends_behind_a_word(advice: str) -> None:
    message = "words of five letters each " * 100
    text = short_text(KafkaFault(message, advice))
    kept, found, _ = text.partition("... ")
    assert found and text.endswith(advice) and len(kept) >= MESSAGE_CHARACTERS_MIN - 12
    assert message.startswith(kept + " ")
