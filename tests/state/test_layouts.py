"""A store whose rows have another form than they had is restored, and never misread."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.common.errors import StateStoreError
from penstock.common.serdes import Serdes
from penstock.state.builders import AnyStoreBuilder
from penstock.state.disk.task_stores import open_task_stores
from penstock.state.key_value.store import KeyValueStoreBuilder, TimestampedKeyValueStoreBuilder
from penstock.state.windowed.session_store import SessionStoreBuilder
from penstock.state.windowed.window_store import TimestampedWindowStoreBuilder, WindowStoreBuilder

HOUR = 3_600_000
STRINGS = (Serdes.string(), Serdes.string())
KEY_VALUE = KeyValueStoreBuilder("store", *STRINGS)
TIMESTAMPED = TimestampedKeyValueStoreBuilder("store", *STRINGS)
WINDOWS = WindowStoreBuilder("store", *STRINGS, retention_ms=HOUR, window_size_ms=10)
TIMESTAMPED_WINDOWS = TimestampedWindowStoreBuilder("store", *STRINGS, retention_ms=HOUR, window_size_ms=10)
SESSIONS = SessionStoreBuilder("store", *STRINGS, retention_ms=HOUR)
OTHER = KeyValueStoreBuilder("other", *STRINGS)


def write(path: Path, builder: AnyStoreBuilder) -> None:
    stores = open_task_stores(path, [builder, OTHER])
    batch = stores.new_batch()
    batch.put("store", b"key", b"row")
    batch.put("other", b"key", b"row")
    stores.write(batch, {"store": 7, "other": 8})
    stores.close()


def found(path: Path, builder: AnyStoreBuilder) -> tuple[list[bytes], int | None]:
    stores = open_task_stores(path, [builder, OTHER])
    assert (stores.store("other").get(b"key"), stores.changelog_offset("other")) == (b"row", 8)
    keys = [key for key, _ in stores.store("store").scan(None, None)]
    offset = stores.changelog_offset("store")
    stores.close()
    return keys, offset


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (KEY_VALUE, TIMESTAMPED),
        (TIMESTAMPED, KEY_VALUE),
        (TIMESTAMPED, replace(TIMESTAMPED, headers=True)),
        (replace(TIMESTAMPED, headers=True), TIMESTAMPED),
        (TIMESTAMPED_WINDOWS, replace(TIMESTAMPED_WINDOWS, headers=True)),
        (SESSIONS, replace(SESSIONS, headers=True)),
        (KEY_VALUE, WINDOWS),
        (WINDOWS, TIMESTAMPED_WINDOWS),
        (WINDOWS, SESSIONS),
        (WINDOWS, replace(WINDOWS, retention_ms=2 * HOUR)),
        (SESSIONS, replace(SESSIONS, retention_ms=HOUR // 2)),
    ],
    ids=lambda builder: builder.layout,
)
def test_a_store_of_another_form_is_wiped_and_restored_from_the_beginning(
    was: AnyStoreBuilder, now: AnyStoreBuilder, tmp_path: Path
) -> None:
    """Found wrong: rows of one kind were read as those of the other, and a store with a new retention lost all."""
    write(tmp_path, was)
    assert found(tmp_path, was) == ([b"key"], 7)
    assert found(tmp_path, now) == ([], None)
    write(tmp_path, now)
    assert found(tmp_path, now) == ([b"key"], 7), "once is enough"


@pytest.mark.parametrize(
    "now",
    [
        replace(WINDOWS, window_size_ms=20),
        replace(WINDOWS, retain_duplicates=True),
        replace(WINDOWS, caching=True, topic_config={"retention.ms": "1"}),
        replace(WINDOWS, value_serde=Serdes.json()),
        replace(WINDOWS, retention_ms=HOUR + 1),
    ],
)
def test_settings_that_do_not_affect_the_form_of_rows_may_change(now: AnyStoreBuilder, tmp_path: Path) -> None:
    write(tmp_path, WINDOWS)
    assert found(tmp_path, now) == ([b"key"], 7)


def test_a_store_of_another_form_without_a_changelog_is_an_error_and_stays(tmp_path: Path) -> None:
    without = KEY_VALUE.with_logging_disabled()
    write(tmp_path, without)
    with pytest.raises(
        StateStoreError, match=r"rows of store 'store' in .* have the format \(key-value\), but the program expects \("
    ):
        open_task_stores(tmp_path, [TIMESTAMPED.with_logging_disabled(), OTHER])
    assert found(tmp_path, without) == ([b"key"], 7), "and nothing is open or locked"
    assert found(tmp_path, replace(TIMESTAMPED, logging=False, source_topic="input")) == ([], None)
