"""Zones: Java's names, tzdata's rules, and none of the machine's files."""

from __future__ import annotations

import importlib.resources
import zoneinfo
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from base.text import zones
from base.text.timestamps import timestamp_us
from tests.base.text import corpus

MOMENTS_OF_2015 = ("2015-01-15 12:00:00", "2015-07-15 12:00:00")
"""History that no release of the rules changes any more."""


def test_every_region_of_java_is_known_and_has_javas_offset(spark: SparkSession) -> None:
    assert spark.sparkContext._jvm is not None
    javas = {*spark.sparkContext._jvm.java.time.ZoneId.getAvailableZoneIds(), *zones.SHORT_NAMES, "ROC", "Factory"}
    names = sorted(name for name in javas if not name.startswith("SystemV/"))
    assert len(names) > 550
    texts = [f"{moment} {name}" for moment in MOMENTS_OF_2015 for name in names]
    ours = [timestamp_us(text) for text in texts]
    sparks = corpus.sparks_cast(spark, texts, "TIMESTAMP")
    assert [(t, s, o) for t, s, o in zip(texts, sparks, ours, strict=True) if s != o] == []


NEAR_CHANGES = (
    "2015-03-08 06:59:59", "2015-03-08 07:00:00", "2015-11-01 05:59:59", "2015-11-01 06:00:00", "2015-03-29 00:59:59", "2015-03-29 01:00:00",
    "2015-10-25 00:59:59", "2015-10-25 01:00:00", "2015-04-04 14:59:59", "2015-04-04 15:00:00", "0001-01-01 00:00:00", "1890-06-01 00:00:00",
    "9999-12-31 23:00:00", "+12024-07-01 12:00:00", "-0500-07-01 12:00:00",
)  # fmt: skip
"""In UTC: a second before clocks change in New York, Paris or on Lord Howe Island, and that second; and years without a datetime of Python's."""


def test_a_moment_has_the_offset_that_is_in_force_then(spark: SparkSession) -> None:
    """In both ways: what a clock shows at a moment, and the moment at which it shows a time."""
    names = ("America/New_York", "Europe/Paris", "Australia/Lord_Howe", "Asia/Kolkata", "+05:30", "PST", "UTC")
    cases = [(timestamp_us(f"{moment} UTC"), name) for moment in NEAR_CHANGES for name in names]
    frame = spark.createDataFrame(cases, "us BIGINT, zone STRING")
    moved = [
        f"unix_micros({function}(timestamp_micros(us), zone))"
        for function in ("from_utc_timestamp", "to_utc_timestamp")
    ]
    found = [
        (us, zone, to_zone - us, us - to_utc)
        for us, zone, to_zone, to_utc in frame.selectExpr("us", "zone", *moved).collect()
    ]
    ours = [
        (us, zone, *((find(zone, us // 1_000_000) or 0) * 1_000_000 for find in (zones.offset_at_s, zones.offset_s)))
        for us, zone in cases
        if us is not None
    ]
    assert sorted(found) == sorted(ours)


def test_the_short_names_are_javas(spark: SparkSession) -> None:
    assert spark.sparkContext._jvm is not None
    javas = dict(spark.sparkContext._jvm.java.time.ZoneId.SHORT_IDS)
    if javas["EST"] != "-05:00":
        pytest.skip("Java 24 and later give EST, MST and HST regions; base/text/zones.py says so")
    assert javas == zones.SHORT_NAMES


def test_the_machines_zone_files_are_not_read(tmp_path: Path) -> None:
    """A file of that name on the machine's path says that Paris is in UTC."""
    (tmp_path / "Europe").mkdir()
    utc = importlib.resources.files("tzdata").joinpath("zoneinfo", "UTC").read_bytes()
    (tmp_path / "Europe" / "Paris").write_bytes(utc)
    zones._rules.cache_clear()
    zoneinfo.ZoneInfo.clear_cache()
    try:
        zoneinfo.reset_tzpath((tmp_path,))
        assert zoneinfo.ZoneInfo("Europe/Paris").utcoffset(datetime(2020, 1, 1)) == timedelta(0), "no trap is set"
        assert timestamp_us("2020-01-01 00:00:00 Europe/Paris") == timestamp_us("2019-12-31 23:00:00")
    finally:
        zoneinfo.reset_tzpath()
        zoneinfo.ZoneInfo.clear_cache()


def test_a_name_never_leads_to_another_file() -> None:
    for name in ("../zones", "Europe/../UTC", "/etc/localtime", "zone.tab", "Europe", "UTC\x00", ""):
        assert zones.offset_s(name, 0) is None, name
