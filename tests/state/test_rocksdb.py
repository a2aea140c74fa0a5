"""Faults that only stores on disk can have: crashes, corruption, locks, a topology that changed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.common.errors import StateStoreCorruptError, StateStoreError, StateStoreLockedError
from penstock.state.disk.rocksdb import RocksDBTaskStores
from penstock.state.disk.rocksdb_properties import stalled_ms
from penstock.state.key_value.store import KeyValueStoreBuilder
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]

COMMIT_FOR_EVER = """
import sys
from pathlib import Path
from penstock.state.key_value.store import KeyValueStoreBuilder
from penstock.state.disk.rocksdb import RocksDBTaskStores
stores = RocksDBTaskStores(Path(sys.argv[1]), [KeyValueStoreBuilder(name) for name in "ab"])
number = (stores.changelog_offset("a") or 0) + 1
while True:
    batch = stores.new_batch()
    for key in range(50):
        for name in "ab":
            batch.put(name, b"%d" % key, b"%d" % number)
    for name in "ab":
        batch.delete_range(name, b"segment", b"segmenu")
        batch.put(name, b"segment %d" % number, b"%d" % number)
    stores.write(batch, {"a": number, "b": number})
    print(number, flush=True)
    number += 1
"""


def opened(path: Path, *names: str) -> RocksDBTaskStores:
    return RocksDBTaskStores(path, [KeyValueStoreBuilder(name) for name in names])


def filled(path: Path, *names: str, rows: int = 5000) -> None:
    stores = opened(path, *names)
    batch = stores.new_batch()
    for name in names:
        for number in range(rows):
            batch.put(name, b"%06d" % number, os.urandom(50))
    stores.write(batch, dict.fromkeys(names, rows))
    stores.close()


def damage(file: Path, at: float, length: int = 64) -> None:
    data = bytearray(file.read_bytes())
    start = int(len(data) * at)
    data[start : start + length] = bytes(byte ^ 0xFF for byte in data[start : start + length])
    file.write_bytes(bytes(data))


def test_a_process_killed_between_commits_leaves_all_stores_at_one_commit_and_loses_none(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    last_seen = 0
    for _ in range(5):
        process = subprocess.Popen(
            [sys.executable, "-c", COMMIT_FOR_EVER, str(tmp_path / "db")], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(rng.randrange(1, 400)):
            last_seen = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        last_seen = max([last_seen, *(int(line) for line in process.stdout.readlines() if line.endswith("\n"))])
        process.wait()
        process.stdout.close()
        stores = opened(tmp_path / "db", "a", "b")
        offset = stores.changelog_offset("a")
        assert offset is not None
        assert offset >= last_seen
        assert stores.changelog_offset("b") == offset
        for name in "ab":
            rows = list(stores.store(name).scan(None, None))
            assert len(rows) == 51
            assert {row for _, row in rows} == {b"%d" % offset}
            assert rows[-1][0] == b"segment %d" % offset, "the range is deleted with the rest, or not at all"
        stores.close()


def test_a_damaged_block_is_an_error_and_never_a_short_answer(tmp_path: Path) -> None:
    filled(tmp_path, "a")
    for table in tmp_path.glob("*.sst"):
        if table.stat().st_size > 50_000:
            damage(table, 0.5)
    stores = opened(tmp_path, "a")
    store = stores.store("a")
    for read in (
        lambda: list(store.scan(None, None)),
        lambda: list(store.scan(None, None, reverse=True)),
        lambda: store.get_many([b"%06d" % number for number in range(5000)]),
        lambda: [store.get(b"%06d" % number) for number in range(5000)],
    ):
        with pytest.raises(StateStoreCorruptError, match=r"'a' in .* is corrupt"):
            read()
    stores.wipe("a")
    assert list(stores.store("a").scan(None, None)) == []
    assert stores.changelog_offset("a") is None
    stores.close()


@pytest.mark.parametrize("missing", ["CURRENT", "MANIFEST-*", "*.sst"])
def test_a_missing_file_is_an_error_and_never_an_empty_store(tmp_path: Path, missing: str) -> None:
    filled(tmp_path, "a")
    for file in tmp_path.glob(missing):
        file.unlink()
    with pytest.raises(StateStoreCorruptError, match="corrupt") as raised:
        list(opened(tmp_path, "a").store("a").scan(None, None))
    assert str(tmp_path) in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "Invalid argument: Column families not opened: store:b",
        "IO error: No such file or directory: While mkdir if missing",
        "Invalid argument: /state/0_0/rocksdb: does not exist (create_if_missing is false)",
    ],
)
def test_only_what_rocksdb_calls_corruption_is_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    def fails(path: Path, families: list[str]) -> None:
        raise Exception(text)

    monkeypatch.setattr("penstock.state.disk.rocksdb._open", fails)
    with pytest.raises(StateStoreError, match="cannot be used, and nothing was deleted") as raised:
        opened(tmp_path, "a")
    assert not isinstance(raised.value, StateStoreCorruptError)
    assert text in str(raised.value)


def test_a_second_opener_gets_an_error_that_the_stores_are_locked(tmp_path: Path) -> None:
    stores = opened(tmp_path, "a")
    with pytest.raises(StateStoreLockedError, match="locked"):
        opened(tmp_path, "a")
    other = subprocess.run(
        [sys.executable, "-c", COMMIT_FOR_EVER, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert "StateStoreLockedError" in other.stderr
    assert str(tmp_path) in other.stderr
    scan = stores.store("a").scan(None, None)
    stores.close()
    opened(tmp_path, "a").close()
    with pytest.raises(StateStoreError):
        next(scan)


def test_a_new_store_joins_and_one_that_the_topology_lost_keeps_its_rows(tmp_path: Path) -> None:
    filled(tmp_path, "a", "offsets", rows=10)
    stores = opened(tmp_path, "a", "new")
    assert stores.changelog_offset("new") is None
    assert stores.changelog_offset("a") == 10
    stores.close()
    stores = opened(tmp_path, "a", "new", "offsets")
    assert stores.changelog_offset("offsets") == 10
    assert len(list(stores.store("offsets").scan(None, None))) == 10
    stores.close()


def test_a_wipe_cut_short_by_a_crash_is_finished_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path, "a", rows=10)
    stores = opened(tmp_path, "a")
    with monkeypatch.context() as patched:
        patched.setattr(RocksDBTaskStores, "_finish_wipe", lambda self, name: None)
        stores.wipe("a")
    stores.close()
    stores = opened(tmp_path, "a")
    assert stores.changelog_offset("a") is None
    assert list(stores.store("a").scan(None, None)) == []
    stores.close()


def test_the_number_of_entries_is_known_again_after_a_restart(tmp_path: Path) -> None:
    filled(tmp_path, "a", rows=5000)
    for _ in range(2):  # once they are replayed from the log, then they are in files
        stores = opened(tmp_path, "a")
        assert stores.store("a").approximate_num_entries() == 5000
        stores.close()


@pytest.mark.parametrize(
    ("statistics", "ms"),
    [
        ("** DB Stats **\nCumulative stall: 01:02:3.250 H:M:S, 0.1 percent\nInterval stall: …", 3_723_250.0),
        ("Cumulative stall: 00:00:0.000 H:M:S, 0.0 percent", 0.0),
        ("** DB Stats **", None),
        (None, None),
    ],
)
def test_write_stalls_are_read_from_the_statistics_of_the_database(statistics: str | None, ms: float | None) -> None:
    assert stalled_ms(statistics) == ms
