"""``--dry-run``: the state that a backfill has computed, compared with the state in the changelogs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sql

from penstock.common.config import StreamsConfig
from penstock.common.offset_ranges import Ranges
from penstock.pipeline.backfill.stage_rows import StageRows
from penstock.pipeline.reading.contracts import HistorySource
from penstock.pipeline.reading.frames import frame_of
from penstock.state.builders import AnyStoreBuilder
from penstock.tasks.program import TaskProgram
from penstock.topology.physical.topology import Topology

_KEYS = ["topic", "partition", "key"]
_SHOWN = 10


@dataclass(frozen=True)
class Difference:
    """A key of a changelog whose rows differ: value and timestamp (ms) in the changelog and as computed; None: no
    row."""

    partition: int
    key: bytes
    there: tuple[bytes, int] | None
    computed: tuple[bytes, int] | None


@dataclass(frozen=True)
class Comparison:
    """The comparison of one changelog: numbers of keys, and the first differences in the order of partition and key.

    ``other_time``: number of keys with the same value but another timestamp. ``only_there`` may count rows that have
    expired, if the store ``expires``.
    """

    changelog: str
    same: int = 0
    other_value: int = 0
    other_time: int = 0
    only_there: int = 0
    only_computed: int = 0
    expires: bool = False
    differences: Sequence[Difference] = ()

    @property
    def differs(self) -> bool:
        """True if a key differs in a way that expiry cannot explain."""
        return bool(self.other_value or self.other_time or self.only_computed or (self.only_there and not self.expires))


def compare(
    spark: SparkSession, kafka: HistorySource, there: Ranges, computed: StageRows, stores: Mapping[str, AnyStoreBuilder]
) -> list[Comparison]:
    """Compares the last row of each key. ``there``: the ranges of the changelogs; ``stores``: by changelog."""
    both = _both(_last_there(spark, kafka, there), _last_computed(computed))
    counted = {(row["topic"], row["kind"]): row["count"] for row in both.groupBy("topic", "kind").count().collect()}
    first = Window.partitionBy("topic").orderBy("partition", "key")
    differing = both.where(sql.col("kind") != "same").withColumn("place", sql.row_number().over(first))
    shown: dict[str, list[Difference]] = {}
    for row in differing.where(sql.col("place") <= _SHOWN).orderBy("topic", "place").collect():
        was = None if row["there"] is None else (bytes(row["there"]), row["there_at"])
        computed_row = None if row["computed"] is None else (bytes(row["computed"]), row["computed_at"])
        difference = Difference(row["partition"], bytes(row["key"]), was, computed_row)
        shown.setdefault(row["topic"], []).append(difference)
    return [
        Comparison(
            topic,
            counted.get((topic, "same"), 0),
            counted.get((topic, "other_value"), 0),
            counted.get((topic, "other_time"), 0),
            counted.get((topic, "only_there"), 0),
            counted.get((topic, "only_computed"), 0),
            "delete" in builder.changelog_config(0).get("cleanup.policy", ""),
            tuple(shown.get(topic, ())),
        )
        for topic, builder in sorted(stores.items())
    ]


def stores_to_compare(topology: Topology, config: StreamsConfig) -> tuple[dict[str, AnyStoreBuilder], list[str]]:
    """Returns the stores by their changelogs, and the names of those that cannot be compared: their changelogs hold
    several rows of a key."""
    stores: dict[str, AnyStoreBuilder] = {}
    left_out = []
    for sub in topology.subtopologies:
        program = TaskProgram.of([sub], config)
        for name, changelog in program.changelogs.items():
            if "min.compaction.lag.ms" in program.stores[name].changelog_config(0):
                left_out.append(name)
            elif not changelog.is_source_topic:
                stores[changelog.topic] = program.stores[name]
    return stores, sorted(left_out)


def _both(there: DataFrame | None, computed: DataFrame) -> DataFrame:
    named = computed.select(*_KEYS, sql.col("value").alias("computed"), sql.col("timestamp").alias("computed_at"))
    if there is None:
        both = named.withColumn("there", sql.lit(None).cast("binary")).withColumn(
            "there_at", sql.lit(None).cast("long")
        )
    else:
        before = there.select(*_KEYS, sql.col("value").alias("there"), sql.col("timestamp").alias("there_at"))
        both = before.join(named, _KEYS, "full_outer")
    return both.withColumn(
        "kind",
        sql.when(sql.col("computed").isNull(), "only_there")
        .when(sql.col("there").isNull(), "only_computed")
        .when(sql.col("there") != sql.col("computed"), "other_value")
        .when(sql.col("there_at") != sql.col("computed_at"), "other_time")
        .otherwise("same"),
    )


def _last_there(spark: SparkSession, kafka: HistorySource, ranges: Ranges) -> DataFrame | None:
    rows = frame_of(spark, kafka, ranges)
    return None if rows is None else _last(rows)


def _last_computed(rows: StageRows) -> DataFrame:
    return _last(rows.frame())


def _last(rows: DataFrame) -> DataFrame:
    """Returns the last row of each key, without deletions."""
    record = sql.struct("value", "timestamp")
    last = rows.groupBy(*_KEYS).agg(sql.max_by(record, "sequence").alias("last"))
    return last.select(*_KEYS, "last.value", "last.timestamp").where(sql.col("value").isNotNull())


def in_words(comparisons: Iterable[Comparison], left_out: Sequence[str]) -> Iterator[str]:
    """Yields lines for people."""
    for it in comparisons:
        expired = ", of which some may have expired" if it.only_there and it.expires else ""
        yield (
            f"{it.changelog}: {it.same:,} keys are the same, {it.other_value:,} have another value, {it.other_time:,} "
            f"another timestamp; {it.only_there:,} are only in the changelog{expired}, {it.only_computed:,} were only "
            "computed"
        )
        for each in it.differences:
            yield f"  partition {each.partition}, key {each.key!r}: {_row(each.there)}, computed {_row(each.computed)}"
    for store in left_out:
        yield f"{store}: not compared, because the changelog of a versioned store holds several rows of a key"


def _row(row: tuple[bytes, int] | None) -> str:
    return "no row" if row is None else f"{row[0]!r} at {row[1]}"
