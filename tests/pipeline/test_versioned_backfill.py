"""A backfill hands over what a versioned store needs: its history, not the last version of each key alone."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from penstock.common.serdes import Serdes
from penstock.pipeline.rows import CHANGELOG
from penstock.state.stores import Stores
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.options.materialized import Materialized
from penstock.topology.options.options import Produced
from tests.pipeline.rows import RESTORE, Row, host, output, process, run
from tests.tasks.bench import STRINGS, Bench

HISTORY_MS, SEGMENT_MS = 100, 30
Put = tuple[str, str | None, int]
"""Key, value and timestamp."""


def program() -> StreamsBuilder:
    builder = StreamsBuilder()
    supplier = Stores.persistent_versioned_key_value_store("table", HISTORY_MS, SEGMENT_MS)
    kept: Materialized[str, str] = Materialized.as_(supplier)
    table = builder.table("table", STRINGS, kept)
    joined = builder.stream("in", STRINGS).left_join(table, lambda value, other: str(other))
    joined.to("out", Produced.with_(Serdes.string(), Serdes.string()))
    return builder


def test_records_that_came_too_late_for_the_table_do_not_appear_in_it() -> None:
    rows = [process(0, "table", 0, "k1", "v", 500), process(0, "table", 1, "k2", "too late", 100)]
    written = output(run(host(program().build()), rows, 7))[CHANGELOG]
    assert [(row["key"], row["value"], row["timestamp"]) for row in written] == [(b"k1", b"v", 500)]


def test_a_key_that_was_deleted_and_forgotten_stays_deleted() -> None:
    first = [("k", "v", 5)]
    # The deletion expires before the backfill ends, and the last record of the key is one that comes too late.
    second = [("k", None, 10), ("other", "w", 1000), ("k", "too late", 20)]
    live, backfilled = Bench(program()), restored(two_backfills(first, second))
    live.feed("table", *first, *second)
    for bench in (live, backfilled):
        bench.run()
    asked = [("k", "", time) for time in (900, 950, 1000)]
    for bench in (live, backfilled):
        assert [record.value for record in bench.feed("in", *asked)] == [b"None"] * 3


def test_a_deletion_at_the_very_time_of_what_it_deletes_is_handed_over() -> None:
    log = two_backfills([("k", "v", 7), ("k2", "v", 7)], [("k", None, 7), ("k2", None, 7), ("k2", "w", 12)])
    backfilled = restored(log)
    backfilled.run()
    asked = [("k", "", 7), ("k2", "", 7), ("k2", "", 12)]
    assert [record.value for record in backfilled.feed("in", *asked)] == [b"None", b"None", b"w"]


def two_backfills(*halves: Sequence[Put]) -> list[Row]:
    """The changelog after two backfills, one behind the other, as rows that restore it."""
    log: list[Row] = []
    offset = 0
    for half in halves:
        rows = [process(0, "table", number, *record) for number, record in enumerate(half, offset)]
        offset += len(half)
        written = output(run(host(program().build()), [*log, *rows], 7))[CHANGELOG]
        log += [
            (0, RESTORE, "table", 0, len(log) + place, row["key"], row["value"], row["timestamp"], None)
            for place, row in enumerate(written)
        ]
    return log


def restored(log: Sequence[Row]) -> Bench:
    """The live application that begins with this changelog."""
    bench = Bench(program(), start=False)
    keys, values, timestamps = (list(column) for column in list(zip(*log, strict=True))[5:8])
    bench.state_manager.restore("table", keys, values, timestamps, len(log))
    bench.task.init(0)
    return bench


@pytest.mark.parametrize("seed", range(40))
def test_a_second_backfill_writes_over_what_the_first_one_has_left(seed: int) -> None:
    rng, now = random.Random(seed), 0
    records: list[Put] = []
    for offset in range(rng.choice((10, 30, 60))):
        now += rng.randrange(40)
        timestamp = max(now - rng.choice((0, 0, 5, 40, 90, 200)), 0)
        if records and rng.random() < 0.2:
            timestamp = rng.choice(records)[2]
        records.append((f"k{rng.randrange(8)}", rng.choice((f"v{offset}", None)), timestamp))
    at = rng.randrange(1, len(records))
    live, backfilled = Bench(program()), restored(two_backfills(records[:at], records[at:]))
    live.feed("table", *records)
    asked = [(f"k{n}", "", time) for n in range(8) for time in range(max(now - 120, 0), now + 2)]
    for bench in (live, backfilled):
        bench.run()
    assert live.feed("in", *asked) == backfilled.feed("in", *asked)


@pytest.mark.parametrize("seed", range(8))
def test_the_output_of_a_backfill_restores_to_the_state_of_the_live_application(seed: int) -> None:
    rng, now = random.Random(seed), 0
    records = []
    for offset in range(rng.choice((1, 30, 300))):
        now += rng.randrange(8)
        timestamp = max(now - rng.choice((0, 0, 5, 40, 90, 200)), 0)
        records.append((f"k{rng.randrange(5)}", rng.choice((f"v{offset}", f"v{offset}", None)), timestamp))
    # A key that is not updated any more has its latest version for ever.
    records.insert(0, ("old", "for ever", 0))
    live = Bench(program())
    live.feed("table", *records)

    rows = [process(0, "table", offset, *record) for offset, record in enumerate(records)]
    written = output(run(host(program().build()), rows, 7))[CHANGELOG]
    backfilled = Bench(program(), start=False)
    keys, values, timestamps = ([row[name] for row in written] for name in ("key", "value", "timestamp"))
    assert timestamps == sorted(timestamps)
    backfilled.state_manager.restore("table", keys, values, timestamps, len(written))
    backfilled.task.init(0)

    asked = [
        (key, "", time) for key in ("old", *(f"k{n}" for n in range(5))) for time in range(max(now - 120, 0), now + 2)
    ]
    late = [("k0", "late", max(now - back, 0)) for back in (0, 1, 20, 50, 100)]
    for bench in (live, backfilled):
        bench.run()
    assert live.feed("in", *asked) == backfilled.feed("in", *asked)
    assert live.feed("table", *late) == backfilled.feed("table", *late)
    assert live.feed("in", *asked) == backfilled.feed("in", *asked)
