"""The table of formats: an omission is an error at import."""

from __future__ import annotations

import pickle
from dataclasses import MISSING, fields, replace

import pytest

from io_kafka.formats import OutputFormat, SourceFormat
from io_kafka.formats.descriptor import Format, FromOptions, FromRegistry, Reading, Writing
from io_kafka.formats.table import FORMATS, by_name, format_of, reading_of, writing_of
from tests.io_kafka.formats import avro_messages as a

ALL = tuple(FORMATS.values())


@pytest.mark.parametrize("kind", [Format, Reading, Writing, FromOptions, FromRegistry])
def test_no_field_of_a_descriptor_has_a_default(kind: type) -> None:
    assert all(each.default is MISSING and each.default_factory is MISSING for each in fields(kind))


@pytest.mark.parametrize(
    "formats",
    [
        ALL[:-1],
        (*ALL, ALL[0]),
        (replace(ALL[0], reads=ALL[0].reads[:1]), *ALL[1:]),
        (replace(ALL[0], reads=(*ALL[0].reads, replace(ALL[0].reads[0], encoding=dict))), *ALL[1:]),
        (replace(ALL[0], writes=ALL[1].writes), *ALL[1:]),
        (replace(ALL[0], name="other"), *ALL[1:]),  # type: ignore[arg-type]
    ],
)
def test_a_format_or_an_encoding_without_one_descriptor_is_refused(formats: tuple[Format, ...]) -> None:
    with pytest.raises(TypeError, match=r"descriptors in io_kafka/formats/table\.py, wanted 1"):
        by_name(formats)


def test_what_has_an_encoding_finds_its_descriptor_after_pickling() -> None:
    source = pickle.loads(pickle.dumps(SourceFormat("t", a.EVERY_TYPE)))
    output = pickle.loads(pickle.dumps(OutputFormat("v", a.EVERY_TYPE)))
    assert format_of(source.encoding) is FORMATS["json"]
    assert reading_of(source.encoding) is FORMATS["json"].reads[0]
    assert writing_of(output.encoding) is FORMATS["json"].writes
