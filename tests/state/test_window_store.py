"""Window stores: their bytes, what they show, and what becomes of what is late. Any order of things: the model test."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from penstock.common.errors import SerializationError, StateStoreError, UnknownQueryError
from penstock.common.serdes import Serdes
from penstock.common.windows import LARGEST_TIMESTAMP, Windowed
from penstock.state.contracts import StateStoreContext
from penstock.state.disk.task_stores import open_task_stores
from penstock.state.queries import CountQuery, KeyQuery
from penstock.state.stores import Stores
from penstock.state.windowed.queries import SessionQuery
from penstock.state.windowed.window_store import WindowStoreBuilder
from tests.state.windowed_model import Shape
from tests.state.windowed_rig import Rig

HOUR = 3_600_000
STRINGS = (Serdes.string(), Serdes.string())


@pytest.fixture
def rig() -> Iterator[Rig]:
    yield from opened(Shape(HOUR))


def opened(shape: Shape) -> Iterator[Rig]:
    rig = Rig(shape, None)
    yield rig
    rig.close()


def shown(found: Iterator[tuple[Windowed[Any], Any]]) -> list[str]:
    return [f"{key} {value}" for key, value in found]


# ---- bytes ----


def test_a_row_key_begins_with_the_segment_and_the_changelog_key_is_kafka_streams(rig: Rig) -> None:
    rig.put("A", HOUR + 10, 0, "v", timestamp=7)
    rig.commit()
    assert [key.hex() for key in rig.rows()] == ["0000000000000002" + "41" + "000000000036ee8a" + "00000000"]
    assert rig.changelog == [(bytes.fromhex("41" + "000000000036ee8a" + "00000000"), b"v", 7)]


def test_a_timestamped_row_begins_with_the_timestamp_which_in_the_changelog_is_the_records() -> None:
    for rig in opened(Shape(HOUR, timestamped=True)):
        rig.put("A", 10, 0, "v", timestamp=10)
        rig.commit()
        assert [row.hex() for row in rig.rows().values()] == ["000000000000000a76"]
        assert rig.changelog == [(bytes.fromhex("41000000000000000a00000000"), b"v", 10)]


def test_duplicates_are_numbered_from_one_and_continue_after_a_restart() -> None:
    for rig in opened(Shape(HOUR, retain_duplicates=True)):
        for value in ("v", "w", None):
            rig.put("A", 10, 0, value, timestamp=0)
        rig.commit()
        rig.crash(batch_size=10)
        rig.put("A", 10, 0, "x", timestamp=0)
        assert [key[-4:].hex() for key, *_ in rig.changelog] == ["00000001", "00000002", "00000003"]
        assert list(rig.view.fetch("A", 0, 20)) == [(10, "v"), (10, "w"), (10, "x")]


def test_the_changelog_is_compacted_and_kept_as_long_as_the_store_and_a_day_more() -> None:
    config = Stores.window_store_builder(Stores.persistent_window_store("w", HOUR, 10), *STRINGS).changelog_config(5)
    assert config == {"cleanup.policy": "compact,delete", "retention.ms": str(HOUR + 5)}
    duplicates = Stores.persistent_window_store("w", LARGEST_TIMESTAMP, 10, retain_duplicates=True)
    config = Stores.window_store_builder(duplicates, *STRINGS).changelog_config(5)
    assert config == {"cleanup.policy": "delete", "retention.ms": str(LARGEST_TIMESTAMP)}


# ---- reading ----


def test_a_fetch_of_a_key_leaves_out_keys_that_begin_with_it(rig: Rig) -> None:
    # As bytes, the second row is between two windows of the first key.
    for key, start in (("a", 0), ("a\0", 60_000), ("a", 120_000)):
        rig.put(key, start, 0, "v", timestamp=0)
    assert [start for start, _ in rig.view.fetch("a", 0, HOUR)] == [0, 120_000]
    assert [start for start, _ in rig.view.backward_fetch("a", 0, HOUR)] == [120_000, 0]


def test_a_range_of_keys_has_those_that_its_last_key_begins_with(rig: Rig) -> None:
    # As bytes, the row is behind every row of the range's last key.
    rig.put("a", 120_000, 0, "v", timestamp=0)
    assert shown(rig.view.fetch("a", "a\0", 0, HOUR)) == ["[a@120000/120010] v"]


def test_several_keys_come_by_segment_then_by_key_then_by_time(rig: Rig) -> None:
    for key, start in (("b", 1), ("a", 5), ("a", 3), ("a", HOUR // 2)):
        rig.put(key, start, 0, "v", timestamp=0)
    expected = ["[a@3/13] v", "[a@5/15] v", "[b@1/11] v", "[a@1800000/1800010] v"]
    assert shown(rig.view.all()) == expected
    assert shown(rig.view.backward_all()) == expected[::-1]


def test_a_range_from_a_key_to_a_smaller_one_is_empty_and_logged(rig: Rig) -> None:
    rig.put("a", 0, 0, "v", timestamp=0)
    with capture_logs() as logs:
        assert list(rig.view.fetch("b", "a", 0, HOUR)) == []
    assert logs[0]["event"].startswith("the range of a fetch is empty: from > to")


def test_a_fetch_of_one_window_is_one_get_and_one_of_a_key_reads_the_segments_of_its_times_alone() -> None:
    for rig in opened(Shape(HOUR)):
        for start in (0, HOUR // 2, HOUR - 1):
            rig.put("a", start, 0, "v", timestamp=0)
        rig.commit()
        rig.store.forget_objects()
        asked = rig.asked_of_committed()
        assert rig.view.fetch("a", HOUR // 2) == "v"
        assert [name for name, *_ in asked] == ["get"]
        asked.clear()
        assert len(list(rig.view.fetch("a", HOUR // 2 + 1, HOUR))) == 1
        assert [(name, begin[:8].hex(), end[:8].hex()) for name, begin, end in asked] == [
            ("scan", "0000000000000001", "0000000000000001")
        ]


# ---- what is late ----


def test_a_record_too_late_for_its_segment_is_dropped_logged_and_counted(rig: Rig) -> None:
    rig.put("a", 3 * HOUR, 0, "v", timestamp=0)
    with capture_logs() as logs:
        rig.put("late", HOUR, 0, "v", timestamp=0)
    assert rig.dropped == 1
    assert [(log["event"], log["store"], log["timestamp"], log["observed_stream_time"]) for log in logs] == [
        ("Skipping record for expired segment.", "store", HOUR, 3 * HOUR)
    ]
    rig.commit()
    assert shown(rig.view.all()) == ["[a@10800000/10800010] v"]


def test_a_restart_shows_nothing_again_that_had_expired(tmp_path: Any) -> None:
    rig = Rig(Shape(HOUR), tmp_path)
    rig.put("a", 10, 0, "v", timestamp=0)
    rig.put("b", HOUR + 10, 0, "v", timestamp=0)
    rig.commit()
    rig.crash(batch_size=1)
    assert len(rig.rows()) == 2, "their segments live"
    assert shown(rig.view.all()) == ["[b@3600010/3600020] v"]
    rig.close()


def test_all_segments_that_expire_at_once_are_deleted_by_one_range(rig: Rig) -> None:
    for segment in range(3):
        rig.put("a", segment * HOUR // 2, 0, "v", timestamp=0)
    rig.commit()
    rig.put("a", 1_000_000 * HOUR, 0, "v", timestamp=0)
    batch = CountingBatch()
    for _ in rig.store.flush(batch):
        pass
    assert batch.ranges == [(bytes(8), (2 * 999_999).to_bytes(8, "big"))]


class CountingBatch:
    """A batch of a commit that is not carried out."""

    def __init__(self) -> None:
        self.ranges: list[tuple[bytes, bytes]] = []

    def put(self, store: str, key: bytes, row: bytes) -> None:
        pass

    def put_all(self, store: str, rows: dict[bytes, bytes | None]) -> Iterator[None]:
        return iter(())

    def delete(self, store: str, key: bytes) -> None:
        pass

    def delete_range(self, store: str, from_key: bytes, to_key: bytes) -> None:
        self.ranges.append((from_key, to_key))


# ---- what is refused ----


def test_a_window_that_starts_before_zero_is_refused(rig: Rig) -> None:
    with pytest.raises(ValueError, match=r"store store: a window cannot start before 0 or after .*: -1"):
        rig.view.put("a", "v", -1)


def test_a_key_may_not_be_none(rig: Rig) -> None:
    with pytest.raises(SerializationError, match="store store: a key may not be None"):
        rig.view.put(None, "v", 0)
    with pytest.raises(SerializationError, match="store store: a key may not be None"):
        rig.view.fetch(None, 0)


def test_a_fetch_of_other_arguments_is_refused_with_those_there_are(rig: Rig) -> None:
    with pytest.raises(TypeError, match=r"fetch takes \(key, time\), \(key, time_from, time_to\) or"):
        rig.view.fetch("a")


def test_queries_of_other_kinds_are_refused_with_those_it_answers(rig: Rig) -> None:
    for query in (KeyQuery(b"a"), CountQuery(), SessionQuery(b"a")):
        with pytest.raises(
            UnknownQueryError, match=r"'store' does not answer .*; it answers: WindowKeyQuery, WindowRa"
        ):
            rig.store.answer(query, None, 10, False)


def test_a_changelog_of_another_kind_of_store_is_found_out(rig: Rig) -> None:
    for key in (b"short", b"a key-value \xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0"):
        with pytest.raises(
            StateStoreError, match=r"its changelog has a record with the key .* which is not a windowed key"
        ):
            rig.store.restore(CountingBatch(), [key], [b"v"], [0])


def test_a_retention_shorter_than_the_windows_is_refused() -> None:
    with pytest.raises(ValueError, match="store w: the retention period must be no smaller than the window size"):
        Stores.persistent_window_store("w", timedelta(seconds=1), timedelta(seconds=2))


def test_a_store_that_retains_duplicates_has_no_caching() -> None:
    supplier = Stores.in_memory_window_store("w", HOUR, 10, retain_duplicates=True)
    with capture_logs() as logs:
        assert not Stores.window_store_builder(supplier, *STRINGS).with_caching_enabled().caching
    assert logs[0]["event"] == "a store that retains duplicates has no caching"


def test_a_listener_that_wants_no_old_values_gets_none(tmp_path: Any) -> None:
    builder = WindowStoreBuilder("store", *STRINGS, caching=True, retention_ms=HOUR, window_size_ms=10)
    stores = open_task_stores(tmp_path, [builder])
    heard: list[Any] = []
    store: Any = builder.open(StateStoreContext(stores.store("store"), None, True, lambda: 0, lambda: None))
    store.listen(
        lambda row_key, *reported: heard.append((store.rows.schema.topic_key(row_key), *reported)), old_values=False
    )
    for value in ("v", "w"):
        store.view().put("a", value, 5)
        batch = stores.new_batch()
        for _ in store.flush(batch):
            pass
        stores.write(batch, {})
        store.batch_written()
    assert heard == [(b"a" + (5).to_bytes(8, "big"), value, None, 0, None) for value in ("v", "w")]
    stores.close()
