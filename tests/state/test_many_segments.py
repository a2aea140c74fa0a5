"""A store that may not expire anything since 1970, because its changelog is ahead of the first commit of its task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.common.serdes import Serdes
from penstock.common.windows import LARGEST_TIMESTAMP
from penstock.state.disk.memory import InMemoryTaskStores
from penstock.state.versioned.queries import MultiVersionedKeyQuery
from penstock.state.versioned.store import VersionedKeyValueStoreBuilder, VersionedStateStore
from penstock.state.windowed.queries import WindowKeyQuery, WindowRangeQuery
from tests.state.contexts import a_context
from tests.state.windowed_model import Shape
from tests.state.windowed_rig import Rig

HOUR = 3_600_000
NOW = 1_000_000_000_000
_ENOUGH = 1000


def counted(call: Callable[..., Any]) -> Callable[..., Any]:
    """``call``, which raises if it is called for each of millions of segments."""
    calls = 0

    def run(*args: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        assert calls <= _ENOUGH, "called for segments without rows"
        return call(*args, **named)

    return run


@pytest.mark.parametrize("committed", [True, False])
def test_only_segments_with_rows_are_read(monkeypatch: pytest.MonkeyPatch, committed: bool) -> None:
    rig = Rig(Shape(10 * HOUR), None)
    for hour in (0, 1, 7):
        rig.view.put("A", f"v{hour}", NOW + hour * HOUR)
        rig.view.put("B", "other", NOW + hour * HOUR)
    if committed:
        rig.commit_unchecked()
    rig.store.continue_from(-1)
    monkeypatch.setattr(rig.store.rows.buffer, "scan", counted(rig.store.rows.buffer.scan))
    wanted = ["v0", "v1", "v7"]
    end = NOW + 8 * HOUR
    assert [value for _, value in rig.view.fetch("A", 0, end)] == wanted
    assert [value for _, value in rig.view.backward_fetch("A", 0, end)] == wanted[::-1]
    assert [value for key, value in rig.view.all() if key.key == "A"] == wanted
    assert [value for key, value in rig.view.backward_all() if key.key == "A"] == wanted[::-1]
    for query in (
        WindowKeyQuery(b"A", 0, LARGEST_TIMESTAMP),
        WindowRangeQuery(0, LARGEST_TIMESTAMP, b"A", b"A"),
    ):
        found = list(rig.store.answer(query, None, 10, committed))
        assert len([row for row in found if row.value is not None]) == 3
    rig.close()


@pytest.mark.parametrize("committed", [True, False])
def test_only_segments_with_versions_are_looked_into(monkeypatch: pytest.MonkeyPatch, committed: bool) -> None:
    string = Serdes.string()
    builder = VersionedKeyValueStoreBuilder(
        "store", string, string, False, history_retention_ms=10 * HOUR, segment_interval_ms=HOUR // 50
    )
    stores = InMemoryTaskStores([builder])
    store = builder.open(a_context(stores.store("store")))
    assert isinstance(store, VersionedStateStore)
    view = store.view()
    for hour in (0, 1, 7):
        view.put("A", f"v{hour}", NOW + hour * HOUR)
    if committed:
        batch = stores.new_batch()
        store.freeze()
        for _ in store.flush(batch):
            pass
        stores.write(batch, {"store": 3})
        store.batch_written()
    store.continue_from(-1)
    versions = store.versions
    for name in ("_history", "_peek_history"):
        monkeypatch.setattr(versions, name, counted(getattr(versions, name)))

    def value_at(time: int) -> str | None:
        found = view.get("A", time)
        return None if found is None else found.value

    assert value_at(NOW + HOUR + 1) == "v1"
    assert value_at(5) is None
    view.put("A", "earliest", 5)
    assert value_at(NOW - 1) == "earliest"
    assert [row.value for row in store.answer(MultiVersionedKeyQuery(b"A"), None, 10, False)] != []
