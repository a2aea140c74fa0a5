"""Queries from outside: each kind of view has its methods, which return values of the declared types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_type

import penstock as ps

KINDS = ps.QueryableStoreTypes


def ask(app: ps.KafkaStreams) -> None:
    """Is only type-checked, never called."""
    counts: ps.ReadOnlyKeyValueStore[str, int] = app.store("counts")
    assert_type(counts.get("a"), int | None)
    assert_type(counts.get_many(["a"]), dict[str, int])
    assert_type(next(counts.reverse_range("a", None)), tuple[str, int])
    assert_type(list(counts.prefix_scan(b"a")), list[tuple[str, int]])
    assert_type(counts.approximate_num_entries(), int)
    stamped: ps.ReadOnlyKeyValueStore[str, ps.ValueAndTimestamp[int]] = app.store(
        "counts", KINDS.timestamped_key_value_store()
    )
    for _, stamp in stamped.all():
        assert_type(stamp.value, int)

    windows: ps.ReadOnlyWindowStore[str, int] = app.store("windows", KINDS.window_store())
    assert_type(windows.fetch("a", 0), int | None)
    assert_type(windows.fetch(key="a", time=0), int | None)
    assert_type(windows.fetch("a", time_from=0, time_to=9), Iterator[tuple[int, int]])
    assert_type(
        windows.fetch(key_from=None, key_to="b", time_from=0, time_to=9), Iterator[tuple[ps.Windowed[str], int]]
    )
    assert_type(windows.backward_fetch(key="a", time_from=0, time_to=9), Iterator[tuple[int, int]])
    for key, count in windows.fetch_all(0, 9):
        assert_type((key.key, key.window.start, count), tuple[str, int, int])

    sessions: ps.ReadOnlySessionStore[str, int] = app.store("sessions", KINDS.session_store())
    assert_type(sessions.fetch_session("a", 0, 9), int | None)
    assert_type(sessions.fetch(key="a"), Iterator[tuple[ps.Windowed[str], int]])
    found = sessions.find_sessions("a", earliest_session_end=0, latest_session_start=9)
    assert_type(found, Iterator[tuple[ps.Windowed[str], int]])

    names: ps.ReadOnlyVersionedKeyValueStore[str, str] = app.store("names", KINDS.versioned_key_value_store())
    assert_type(names.get("a", 5), ps.VersionedRecord[str] | None)
    assert_type(list(names.history("a", 0, 9, descending=True)), list[ps.VersionedRecord[str]])

    wrote = ps.Position.empty_position().with_component("lines", 0, 17)
    late = app.store("windows", KINDS.window_store(), position_bound=ps.PositionBound.at(wrote), wait_s=5.0)
    assert_type(late, ps.ReadOnlyWindowStore[Any, Any])
    request = ps.StateQueryRequest.in_store("counts").with_query(ps.KeyQuery("a"))
    assert_type(app.query(request).position, ps.Position)
    assert_type(app.query(request.with_position_bound(ps.PositionBound.at(wrote))), ps.StateQueryResult)


class Late(ps.Processor[str, int, str, int]):
    """Passes a window store where a read-only one is expected."""

    def init(self, context: ps.ProcessorContext[str, int]) -> None:
        """Open the store."""
        self._windows: ps.WindowStore[str, int] = context.get_state_store("windows")

    def process(self, record: ps.Record[str, int]) -> None:
        """Read."""
        assert_type(total(self._windows, record.key), int)


def total(windows: ps.ReadOnlyWindowStore[str, int], key: str) -> int:
    """Returns the total of all windows of a key."""
    return sum(count for _, count in windows.fetch(key, 0, 9))
