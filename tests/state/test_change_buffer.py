"""The buffer of ``suppress``: order, bytes, commits, restores."""

from __future__ import annotations

import random
from typing import Any

import pytest

import penstock as ps
from penstock.common.ids import TopicPartition
from penstock.common.records import SENT_NOW
from penstock.state.buffers.buffered_change import BufferedChangeCodec, counted_bytes, time_of
from penstock.state.buffers.change_buffer import ChangeBuffer, ChangeBufferBuilder
from penstock.state.disk.memory import InMemoryTaskStores
from tests.state.contexts import a_context

STRINGS = ps.Serdes.string()
IN = TopicPartition("in1", 0)


class Rig:
    """A buffer, and the changelog that it writes."""

    def __init__(self, *, logging: bool = True, value_serde: ps.Serde[Any] = STRINGS) -> None:
        builder = ChangeBufferBuilder("b", STRINGS, value_serde)
        self.stores = InMemoryTaskStores([builder])
        self.log: list[tuple[bytes, bytes | None]] = []
        opened = builder.open(a_context(self.stores.store("b"), self._write if logging else None))
        assert isinstance(opened, ChangeBuffer)
        self.buffer = opened

    def _write(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        assert timestamp == SENT_NOW
        self.log.append((key, value))

    def put(self, key: str, time: int, new: str | None, old: str | None = None) -> None:
        self.buffer.put(key.encode(), time, old, new, time, None, IN, 0, key)

    def take(self) -> tuple[int, str, Any]:
        """The first in order leaves."""
        time, row = self.buffer.order[0]
        waits = self.buffer.find(row)
        assert waits is not None
        self.buffer.remove_first()
        return time, row.decode(), waits[3]

    def take_all(self) -> list[tuple[int, str, Any]]:
        return [self.take() for _ in range(len(self.buffer))]

    def commit(self) -> None:
        batch = self.stores.new_batch()
        for _ in self.buffer.flush(batch):
            pass
        self.stores.write(batch, {})
        self.buffer.batch_written()

    def restored(self) -> Rig:
        """Another one, from the changelog."""
        rig = Rig()
        keys, values = [key for key, _ in self.log], [value for _, value in self.log]
        rig.buffer.restore(self.stores.new_batch(), keys, values, [0] * len(keys))
        rig.buffer.arrange()
        rig.log = list(self.log)
        return rig


def test_waiting_updates_leave_in_the_order_of_their_times_and_then_of_the_bytes_of_their_keys() -> None:
    rig = Rig()
    for key, time in (("b", 5), ("ä", 5), ("a", 7), ("B", 5), ("c", 1)):
        rig.put(key, time, "x")
    assert [(time, key) for time, key, _ in rig.take_all()] == [(1, "c"), (5, "B"), (5, "b"), (5, "ä"), (7, "a")]
    assert len(rig.buffer) == 0


def test_a_later_update_changes_the_value_and_not_the_time() -> None:
    rig = Rig()
    rig.put("a", 5, "1")
    rig.put("b", 6, "1")
    rig.put("a", 9, "2", old="1")
    assert rig.take_all() == [(5, "a", "2"), (6, "b", "1")]


def test_the_value_before_the_first_update_is_kept() -> None:
    rig = Rig()
    rig.put("a", 5, "1", old="0")
    rig.put("a", 6, "2", old="1")
    waits = rig.buffer.find(b"a")
    assert waits is not None
    assert waits[1:4] == ("0", "1", "2")
    assert rig.buffer.find(b"b") is None


def test_a_commit_writes_what_has_changed_since_the_last_one_once_per_key() -> None:
    rig = Rig()
    rig.put("a", 5, "1")
    rig.put("a", 5, "2", old="1")
    rig.put("b", 6, "1")
    rig.commit()
    assert [key for key, _ in rig.log] == [b"a", b"b"]
    rig.commit()
    assert len(rig.log) == 2
    rig.take()
    assert rig.buffer.has_changes
    rig.commit()
    assert rig.log[2:] == [(b"a", None)]
    assert not rig.buffer.has_changes


def test_updates_after_the_freeze_belong_to_the_next_commit() -> None:
    rig = Rig()
    rig.put("a", 5, "1")
    rig.put("b", 6, "1")
    rig.buffer.freeze()
    flush = rig.buffer.flush(rig.stores.new_batch())
    next(flush)
    rig.put("a", 5, "2", old="1")
    rig.take()
    for _ in flush:
        pass
    rig.buffer.batch_written()
    assert [(key, value is None) for key, value in rig.log] == [(b"a", False), (b"b", False)]
    assert rig.restored().take_all() == [(5, "a", "1"), (6, "b", "1")]
    rig.commit()
    assert rig.log[2:] == [(b"a", None)]


def test_keys_are_logged_in_the_order_of_a_hash_set_that_has_grown() -> None:
    rig = Rig()
    names = [f"k{number}" for number in range(20)]
    for name in names:
        rig.put(name, 1, "x")
    rig.commit()
    first = [key for key, _ in rig.log]
    assert sorted(first) == sorted(name.encode() for name in names)
    rig.log.clear()
    # Its table keeps the size that twenty keys needed.
    for name in ("k7", "k16", "k3"):
        rig.put(name, 1, "y", old="x")
    rig.commit()
    assert [key for key, _ in rig.log] == [key for key in first if key in (b"k3", b"k7", b"k16")]


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_same_after_a_restore(seed: int) -> None:
    rolled = random.Random(seed)
    rig, other = Rig(), Rig()
    for _ in range(rolled.randrange(1, 60)):
        match rolled.randrange(6):
            case 0 if rig.buffer.order:
                assert rig.take() == other.take()
            case 1:
                rig.commit()
                rig = rig.restored()
            case 2:
                rig.commit()
                rig.buffer.forget_objects()
            case 3:
                rig.buffer.drop_unused()
            case _:
                key, time, old, new = (
                    rolled.choice("abcde"),
                    rolled.randrange(9),
                    *rolled.choices(["x", "y", None], k=2),
                )
                rig.put(key, time, new, old)
                other.put(key, time, new, old)
    rig.commit()
    assert rig.restored().take_all() == rig.take_all() == other.take_all()


def test_a_store_that_was_wiped_waits_for_nothing() -> None:
    rig = Rig()
    rig.put("a", 5, "1")
    rig.commit()
    rig.buffer.wiped()
    assert (len(rig.buffer), rig.buffer.order, rig.buffer.resident_bytes()) == (0, [], 0)


def test_a_buffer_without_a_changelog_commits_without_a_word() -> None:
    rig = Rig(logging=False)
    rig.put("a", 5, "1")
    rig.commit()
    assert (rig.log, rig.buffer.has_changes, len(rig.buffer)) == ([], False, 1)


def test_a_value_that_its_serde_refuses_is_named_with_its_key() -> None:
    rig = Rig(value_serde=ps.Serdes.long())
    rig.put("a", 5, "text")
    with pytest.raises(
        ps.SerializationError, match=r"store b: the value of key 'a' cannot be serialised: .*Materialized"
    ):
        rig.commit()


def test_memory_is_reported_and_objects_give_way_to_their_bytes() -> None:
    rig = Rig()
    for number in range(100):
        rig.put(f"k{number}", number, "some text " * 20)
    waiting = rig.buffer.dirty_resident_bytes()
    assert waiting > 100 * 200
    assert not rig.buffer.drop_unused()
    rig.commit()
    assert rig.buffer.dirty_resident_bytes() == rig.buffer.flushed_resident_bytes() == 0
    before = rig.buffer.resident_bytes()
    assert before > 100 * 200
    assert rig.buffer.drop_unused()
    assert 0 < rig.buffer.resident_bytes() < before
    assert not rig.buffer.drop_unused()
    assert len(rig.take_all()) == 100


# ---- bytes ----

CODEC = BufferedChangeCodec("b", STRINGS)
HEADERS: ps.Headers = [("h", b"x"), ("ö𝄞", None)]


@pytest.mark.parametrize(
    ("prior", "old", "new", "written"),
    [
        (None, None, "n", "ffffffff ffffffff 000000016e"),
        (None, "o", None, "ffffffff 000000016f ffffffff"),
        ("o", "o", "n", "000000016f fffffffe 000000016e"),
        ("p", "o", "o", "0000000170 000000016f 000000016f"),
        ("p", None, "", "0000000170 ffffffff 00000000"),
        ("", "", "n", "00000000 fffffffe 000000016e"),
    ],
)
def test_updates_are_written_as_kafka_streams_writes_them(
    prior: str | None, old: str | None, new: str | None, written: str
) -> None:
    data = CODEC.encode((19, prior, old, new, 39, None, IN, 1, "key"))
    context = "0000000000000027 0000000000000001 00000003696e31 00000000 00000000"
    assert data == bytes.fromhex(context + written + "0000000000000013")
    assert CODEC.decode(data) == (19, prior, old, new, 39, None, IN, 1, None)
    assert time_of(data) == 19


def test_headers_are_part_of_an_update() -> None:
    data = CODEC.encode((1, None, None, "n", 2, HEADERS, IN, 3, "key"))
    assert bytes.fromhex("00000002 00000001 68 00000001 78 00000006 c3b6f09d849e ffffffff") in data
    assert CODEC.decode(data)[5] == HEADERS


def test_an_update_that_no_record_caused_has_no_source() -> None:
    data = CODEC.encode((1, None, None, "n", 2, None, None, -1, "key"))
    assert CODEC.decode(data)[6:8] == (None, -1)


def test_bytes_are_counted_as_kafka_streams_counts_them() -> None:
    # 8 for each of buffer time, timestamp and offset, 4 for the partition; a header's name by its characters.
    plain = CODEC.encode((1, "p", "oo", "nnn", 2, None, IN, 3, "key"))
    assert counted_bytes(b"key", plain) == 28 + 3 + 3 + 1 + 2 + 3
    same = CODEC.encode((1, "oo", "oo", "nnn", 2, HEADERS, IN, 3, "key"))
    assert counted_bytes(b"key", same) == 28 + 3 + 3 + 2 + 3 + (1 + 1) + 3


def test_the_bytes_of_all_that_waits_are_kept_up() -> None:
    rig = Rig()
    rig.put("a", 1, "1")
    rig.commit()
    rig = rig.restored()
    rig.buffer.count_bytes()
    one = 28 + 1 + 3 + 1
    assert rig.buffer.counted_bytes == one
    rig.put("b", 2, "1")
    assert rig.buffer.counted_bytes == 2 * one
    rig.put("b", 2, "333", old="1")
    assert rig.buffer.counted_bytes == one + one + 1 + 2
    rig.take()
    assert rig.buffer.counted_bytes == one + 1 + 2
    rig.commit()
    rig.take()
    assert rig.buffer.counted_bytes == 0


@pytest.mark.parametrize("data", [b"", b"short", b"\xff" * 40])
def test_bytes_that_are_no_update_are_refused_in_words(data: bytes) -> None:
    with pytest.raises(ps.StateStoreError, match="no update of Kafka Streams"):
        CODEC.decode(data)
