"""The positions that stores report, of what is processed, committed, or waiting in another store's cache."""

from __future__ import annotations

from pathlib import Path

import penstock as ps
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.store_queries import QueryFailure, StoreQuery
from penstock.common.ids import TaskId
from penstock.common.position import Position
from penstock.common.topics import NewTopic
from penstock.state.queries import RangeQuery
from tests.actors.rig import APPLICATION, STRING, Rig, settle

FIRST, SECOND = (Position.from_map({"in": {0: offset}}) for offset in (0, 1))
NOTHING = Position.empty_position()


def tables() -> ps.Topology:
    """Table ``source`` of ``in``, table ``mapped`` made from it, and ``counts``, a join of the two."""
    builder = ps.StreamsBuilder()
    source = builder.table("in", ps.Consumed.with_(STRING, STRING), ps.Materialized.as_("source"))
    kept: ps.Materialized[str, str] = ps.Materialized.as_("mapped")
    mapped = source.map_values(str.upper, kept.with_key_serde(STRING).with_value_serde(STRING))
    result: ps.Materialized[str, str] = ps.Materialized.as_("counts")
    mapped.join(source, lambda left, right: left + right, result.with_key_serde(STRING).with_value_serde(STRING))
    return builder.build()


def asked(
    loop: StreamLoop, store: str, *, committed: bool = False, bound: Position | None = None
) -> tuple[Position, list[object], QueryFailure | None]:
    query = StoreQuery(TaskId(0, 0), store, RangeQuery(), limit=10, committed=committed, bound=bound)
    done = loop.query([query])
    while not done.done():
        loop._queries.step()  # and no step of the loop, which would continue with records and commits
        loop._mailbox.serve(0.0)
    (answer,) = done.result()
    return answer.position, [row.value for row in answer.rows], answer.failure


def test_a_store_behind_a_cache_has_seen_a_record_when_a_commit_has_begun(tmp_path: Path) -> None:
    rig = Rig(tmp_path, tables(), statestore_cache_max_bytes=1 << 20, commit_interval_ms=1000)
    logs = [f"{APPLICATION}-{name}-changelog" for name in ("source", "mapped")]
    rig.clients.admin().create_topics([NewTopic(name, 1) for name in logs])
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    settle(loop)
    assert asked(loop, "source") == (FIRST, ["x"], None)
    assert asked(loop, "mapped") == (NOTHING, [], None), "the update waits in the cache of the table before"
    assert asked(loop, "counts") == (NOTHING, [], None)
    assert asked(loop, "mapped", bound=FIRST) == (NOTHING, [], QueryFailure.NOT_UP_TO_BOUND)
    assert asked(loop, "source", committed=True) == (NOTHING, [], None)
    rig.commit(loop)
    rig.write("in", ("a", "y", 2))
    settle(loop)
    for store, value in (("mapped", "X"), ("counts", "Xx")):
        assert asked(loop, store) == asked(loop, store, committed=True) == (FIRST, [value], None)
    assert asked(loop, "source") == (SECOND, ["y"], None)
    assert asked(loop, "source", committed=True) == (FIRST, ["x"], None)
    rig.commit(loop)
    for store, value in (("source", "y"), ("mapped", "Y"), ("counts", "Yy")):
        assert asked(loop, store, bound=SECOND) == (SECOND, [value], None)


def test_without_a_cache_every_store_has_seen_what_is_processed(tmp_path: Path) -> None:
    rig = Rig(tmp_path, tables(), statestore_cache_max_bytes=0, commit_interval_ms=1000)
    logs = [f"{APPLICATION}-{name}-changelog" for name in ("source", "mapped")]
    rig.clients.admin().create_topics([NewTopic(name, 1) for name in logs])
    loop = rig.running()
    rig.write("in", ("a", "x", 1))
    settle(loop)
    for store, value in (("source", "x"), ("mapped", "X"), ("counts", "Xx")):
        assert asked(loop, store, bound=FIRST) == (FIRST, [value], None)


def test_a_restarted_task_has_the_position_that_it_had_committed(tmp_path: Path) -> None:
    rig = Rig(tmp_path, commit_interval_ms=1000)
    loop = rig.running()
    rig.write("in", ("a", "x", 1), ("a", "x", 2))
    settle(loop)
    rig.stop(loop)
    again = rig.running()
    assert asked(again, "counts") == (SECOND, [2], None)
    assert asked(again, "counts", committed=True) == (SECOND, [2], None)
