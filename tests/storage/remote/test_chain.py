"""A chain is a base and the deltas after it; its stored form never changes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pydantic import ValidationError

from base.version import VersionId
from storage.remote.chain import Chain, Pack
from storage.remote.pack import Kind

V1, V2, V3 = (VersionId(number, 10 * number, f"c{number}") for number in (1, 2, 3))


def pack(kind: Kind, to: VersionId, raw_bytes: int = 9) -> Pack:
    return Pack(name=f"packs/{to.version}-{kind}", kind=kind, to=to, bytes=5, raw_bytes=raw_bytes, digest="ab")


def chain(packs: Sequence[Pack], version: VersionId = V3) -> Chain:
    return Chain(version=version, format=6, seal=2**64 - 1, table_bytes={1: 70, 16: 8}, packs=tuple(packs))


WHOLE = [pack("base", V1, 100), pack("base", V1, 50), pack("delta", V2), pack("delta", V3)]


def test_what_a_chain_says_of_itself() -> None:
    whole = chain(WHOLE)
    assert (list(whole.bases), list(whole.deltas)) == (WHOLE[:2], WHOLE[2:])
    assert (whole.base_version, whole.live_bytes, whole.delta_bytes) == (V1, 78, 18)


def test_the_stored_form_never_changes() -> None:
    text = (
        '{"version":{"version":1,"step":10,"checkpoint_id":"c1"},"format":6,"seal":18446744073709551615,"table_bytes":{"1":70,"16":8},'
        '"packs":[{"name":"packs/1-base","kind":"base","to":{"version":1,"step":10,"checkpoint_id":"c1"},"bytes":5,"raw_bytes":9,"digest":"ab"}]}'
    )
    assert chain([pack("base", V1)], V1).to_json() == text
    assert Chain.of_json(text) == chain([pack("base", V1)], V1)
    assert Chain.of_json(chain(WHOLE).to_json()) == chain(WHOLE)
    with pytest.raises(ValidationError):
        Chain.of_json(text.replace('"format":6,', ""))


@pytest.mark.parametrize(
    ("packs", "why"),
    [
        ([], "begins with its base"),
        (WHOLE[2:], "begins with its base"),
        ([WHOLE[2], *WHOLE[:2], WHOLE[3]], "begins with its base"),
        ([pack("base", V1), pack("base", V2), pack("delta", V3)], "one version"),
        ([*WHOLE[:2], WHOLE[3], WHOLE[2]], "ascend"),
        ([*WHOLE, WHOLE[3]], "ascend"),
        ([pack("base", V3), pack("delta", V3)], "ascend"),
        (WHOLE[:3], "the last pack leads to"),
    ],
)
def test_what_is_no_chain_is_refused(packs: list[Pack], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        chain(packs)
