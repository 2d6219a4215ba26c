"""The views that are defined in Python."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


@dp.materialized_view(table_properties={"topic": "fleet", "mode": "upsert", "key": "manufacturer"})
def fleet() -> DataFrame:
    """Planes, flights and miles of each manufacturer. A corrected plane moves from one row to another."""
    return (
        spark.table("flights")
        .join(spark.table("planes"), "tailnum")
        .groupBy("manufacturer")
        .agg(
            F.count_distinct("tailnum").alias("planes"),
            F.count("*").alias("flights"),
            F.sum("distance").alias("miles"),
            F.max("seats").alias("largest"),
        )
        .where("manufacturer IS NOT NULL")
    )


@dp.materialized_view(table_properties={"topic": "unknown_planes", "mode": "upsert", "key": "carrier"})
def unknown_planes() -> DataFrame:
    """Flights of planes that are not registered, by carrier. A count falls when a plane is registered and rises when one is deleted."""
    flights = spark.table("flights")
    return (
        flights.join(spark.table("planes"), "tailnum", "left_anti")
        .groupBy("carrier")
        .agg(F.count("*").alias("flights"))
    )


@dp.temporary_view()
def departures() -> DataFrame:
    return spark.table("flights").where("dep_delay IS NOT NULL")


@dp.materialized_view(table_properties={"topic": "daily_traffic", "mode": "upsert", "key": "day, origin"})
def daily_traffic() -> DataFrame:
    """Departures per day and airport."""
    return (
        spark.table("departures")
        .groupBy(F.window("time_hour", "1 day").alias("day"), "origin")
        .agg(F.count("*").alias("departures"), F.sum("distance").alias("miles"))
        .select(F.col("day.start").alias("day"), "origin", "departures", "miles")
    )
