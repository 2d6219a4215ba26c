"""The description's JSON text is a format of the disk: databases that exist must stay readable."""

from __future__ import annotations

from base.version import EMPTY, VersionId
from storage import description
from storage.description import Description, MergeProgress
from storage.identity import Identity

ME = Identity("flights", 3, "6f1c0f0e-0000-4000-8000-000000000001")
V4, V5 = VersionId(4, 40, "c4"), VersionId(5, 51, "c5")

MERGING = Description(
    ME,
    epoch=7,
    versions=(V4,),
    layers_made=11,
    opened=8,
    boot="b00t",
    working="layer-11-v5-e7-b00t",
    frozen="layer-10-v4-e7-b00t",
    freezing=V5,
    merge_progress=MergeProgress(next_key="0001000037", table_bytes={1: 18629, 20: 5}, record_set_checksum=1638, cleared=True),
    table_bytes={1: 18637},
    record_set_checksums=(1158,),
)  # fmt: skip
MERGING_TEXT = (
    '{"boot": "b00t", "epoch": 7, "format": 6, "freezing": {"checkpoint_id": "c5", "step": 51, "version": 5}, '
    '"frozen": "layer-10-v4-e7-b00t", '
    '"identity": {"database": "6f1c0f0e-0000-4000-8000-000000000001", "pipeline": "flights", "worker": 3}, '
    '"laid": {"cleared": true, "following": "0001000037", "seal": 1638, "table_bytes": {"1": 18629, "20": 5}}, '
    '"layers_made": 11, "opened": 8, "seals": [1158], "table_bytes": {"1": 18637}, '
    '"versions": [{"checkpoint_id": "c4", "step": 40, "version": 4}], "working": "layer-11-v5-e7-b00t"}'
)

TWO_VERSIONS = Description(ME, epoch=7, versions=(V4, V5), table_bytes={1: 3}, record_set_checksums=(1158, 1416))
TWO_VERSIONS_TEXT = (
    '{"boot": "", "epoch": 7, "format": 6, "freezing": null, "frozen": null, '
    '"identity": {"database": "6f1c0f0e-0000-4000-8000-000000000001", "pipeline": "flights", "worker": 3}, '
    '"laid": null, "layers_made": 0, "opened": 0, "seals": [1158, 1416], "table_bytes": {"1": 3}, '
    '"versions": [{"checkpoint_id": "c4", "step": 40, "version": 4}, {"checkpoint_id": "c5", "step": 51, "version": 5}], '
    '"working": null}'
)

NEW = Description(ME, epoch=1, versions=(EMPTY,))


def test_the_json_text_of_a_description_never_changes() -> None:
    for expected, text in ((MERGING, MERGING_TEXT), (TWO_VERSIONS, TWO_VERSIONS_TEXT)):
        assert description.encode(expected).decode() == text


def test_a_description_is_read_from_that_text() -> None:
    for expected, text in ((MERGING, MERGING_TEXT), (TWO_VERSIONS, TWO_VERSIONS_TEXT)):
        assert description.decode(text.encode()) == expected


def test_a_new_database_has_a_description_without_layers() -> None:
    assert description.decode(description.encode(NEW)) == NEW
