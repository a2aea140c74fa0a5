"""A backfill hands over what a versioned store needs: its history, not the last version of each key alone."""

from __future__ import annotations

import random

import pytest

from penstock.common.serdes import Serdes
from penstock.pipeline.rows import CHANGELOG
from penstock.state.stores import Stores
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.materialized import Materialized
from penstock.topology.options import Produced
from tests.pipeline.test_task_host import batches, host, output, process
from tests.tasks.bench import STRINGS, Bench

HISTORY_MS, SEGMENT_MS = 100, 30


def program() -> StreamsBuilder:
    builder = StreamsBuilder()
    supplier = Stores.persistent_versioned_key_value_store("table", HISTORY_MS, SEGMENT_MS)
    kept: Materialized[str, str] = Materialized.as_(supplier)
    table = builder.table("table", STRINGS, kept)
    joined = builder.stream("in", STRINGS).left_join(table, lambda value, other: str(other))
    joined.to("out", Produced.with_(Serdes.string(), Serdes.string()))
    return builder


@pytest.mark.parametrize("seed", range(8))
def test_what_a_backfill_writes_restores_to_what_the_live_application_would_hold(seed: int) -> None:
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
    written = output(host(program().build()).run(batches(rows, 7)))[CHANGELOG]
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
