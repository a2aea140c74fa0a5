"""``with_ttl``: rows that expire in event time, and what others see of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.state.key_value.ttl_store import TtlBuffer, TtlStateStore
from tests.tasks.bench import STRINGS, Bench, changelog
from tests.tasks.expiring_tables import LONG, ROWS, TEXT, TTL, Build, Idle, bench, counts, joined, shown, table


def test_a_row_goes_a_ttl_after_its_last_update_before_the_record_that_moves_time() -> None:
    task = bench(table)
    assert shown(task.feed("in", ("a", "1", 100), ("b", "1", 105), ("a", "2", 106))) == [
        ("a", "1", 100),
        ("b", "1", 105),
        ("a", "2", 106),
    ]
    assert shown(task.feed("in", ("c", "1", 114))) == [("c", "1", 114)]
    assert shown(task.feed("in", ("d", "1", 120))) == [("b", None, 115), ("a", None, 116), ("d", "1", 120)]


def test_the_changelog_has_the_deletion_at_the_time_of_the_expiry() -> None:
    task = bench(table)
    sent = task.feed("in", ("a", "1", 100), ("b", "1", 200))
    assert shown(sent, changelog("rows")) == [("a", "1", 100), ("a", None, 110), ("b", "1", 200)]


def test_a_cached_table_reports_it_when_it_is_flushed() -> None:
    task = bench(table, caching=True)
    assert task.feed("in", ("a", "1", 100)) == []
    task.commit()
    assert task.feed("in", ("b", "1", 200)) == []
    sent = task.commit()
    assert shown(sent) == [("a", None, 110), ("b", "1", 200)]
    assert shown(sent, changelog("rows")) == [("a", None, 110), ("b", "1", 200)]


def test_an_aggregate_begins_again() -> None:
    task = bench(counts)
    sent = task.feed("in", ("a", "v", 100), ("a", "v", 101), ("a", "v", 111))
    assert shown(sent) == [("a", "1", 100), ("a", "2", 101), ("a", None, 111), ("a", "1", 111)]


def test_an_update_that_is_a_ttl_late_is_dropped_and_counted_and_a_deletion_is_not() -> None:
    task = bench(table)
    task.feed("in", ("a", "1", 100))
    assert shown(task.feed("in", ("a", "late", 90), ("b", "late", 90), ("b", "in time", 91))) == [("b", "in time", 91)]
    assert task.dropped == 2
    assert shown(task.feed("in", ("a", None, 5))) == [("a", None, 5)]


def test_an_older_update_takes_the_rows_life_with_it() -> None:
    """Updates of a table count in the order of their offsets."""
    task = bench(table)
    task.feed("in", ("a", "new", 100), ("a", "old", 95))
    assert shown(task.feed("in", ("b", "1", 105))) == [("a", None, 105), ("b", "1", 105)]


def test_any_input_of_the_task_moves_its_time_and_a_join_finds_no_row_that_has_expired() -> None:
    builder = ps.StreamsBuilder()
    prices = builder.table("prices", STRINGS, ROWS.with_ttl(TTL))
    how: ps.Joined[str, str, str] = ps.Joined.with_(TEXT, TEXT, TEXT)
    orders = builder.stream("orders", STRINGS).left_join(prices, lambda order, price: f"{order}@{price}", how)
    orders.to("out", ps.Produced.with_(TEXT, TEXT))
    task = Bench(builder)
    task.feed("prices", ("a", "1", 100))
    assert shown(task.feed("orders", ("a", "x", 109))) == [("a", "x@1", 109)]
    assert shown(task.feed("orders", ("a", "y", 110))) == [("a", "y@None", 110)]


def test_a_join_of_tables_hears_of_it() -> None:
    task = bench(joined)
    task.feed("other", ("a", "o", 101))
    assert shown(task.feed("in", ("a", "1", 100))) == [("a", "1o", 101)]
    assert shown(task.feed("other", ("b", "o", 110))) == [("a", None, 110)]


def test_a_grouped_table_subtracts_what_has_expired() -> None:
    builder = ps.StreamsBuilder()
    users = builder.table("in", STRINGS, ROWS.with_ttl(TTL).with_caching_disabled())
    cities = users.group_by(lambda user, city: (city, user), ps.Grouped.with_(TEXT, TEXT))
    cities.count(ps.Materialized.as_("cities")).to_stream().to("out", ps.Produced.with_(TEXT, LONG))
    with ps.TopologyTestDriver(builder.build()) as driver:
        for key, timestamp in (("ada", 100), ("bob", 105), ("eve", 112)):
            driver.pipe("in", key.encode(), b"paris", timestamp)
        assert driver.get_key_value_store("cities").get("paris") == 2


def test_a_filtered_table_of_its_own_expires_by_itself() -> None:
    def filtered(builder: ps.StreamsBuilder, how: ps.Materialized[Any, Any]) -> ps.KStream[str, Any]:
        return builder.table("in", STRINGS).filter(lambda value: value != "no", how).to_stream()

    task = bench(filtered)
    assert shown(task.feed("in", ("a", "1", 100), ("b", "no", 120))) == [
        ("a", "1", 100),
        ("a", None, 110),
        ("b", None, 120),
    ]


def test_a_cogrouped_table_reports_each_row_once() -> None:
    def cogrouped(builder: ps.StreamsBuilder, how: ps.Materialized[Any, Any]) -> ps.KStream[str, Any]:
        one = builder.stream("in", STRINGS).group_by_key()
        two = builder.stream("two", STRINGS).group_by_key()
        both: ps.CogroupedKStream[str, str] = one.cogroup(lambda key, value, text: text + value)
        both = both.cogroup(two, lambda key, value, text: text + value.upper())
        return both.aggregate(str, how.with_value_serde(TEXT)).to_stream()

    task = bench(cogrouped)
    assert shown(task.feed("in", ("a", "x", 100))) == [("a", "x", 100)]
    assert shown(task.feed("two", ("a", "y", 101))) == [("a", "xY", 101)]
    assert shown(task.feed("two", ("b", "z", 111))) == [("a", None, 111), ("b", "Z", 111)]


def test_a_deletion_that_expiry_made_has_no_headers_and_the_record_keeps_its_own() -> None:
    task = bench(table)
    task.feed("in", ("a", "1", 100, [("of", b"a")]))
    gone, record = [each for each in task.feed("in", ("b", "1", 110, [("of", b"b")])) if each.topic == "out"]
    assert (list(gone.headers or ()), list(record.headers or ())) == ([], [("of", b"b")])


def test_a_store_of_a_processor_expires_and_takes_nothing_that_has() -> None:
    rows: list[dict[str, Any]] = []

    class Keep(ps.Processor[str, str, str, str]):
        def init(self, context: ps.ProcessorContext[str, str]) -> None:
            self.store = context.get_state_store("rows")

        def process(self, record: ps.Record[str, str]) -> None:
            self.store.put(record.key, ps.ValueAndTimestamp(record.value, record.timestamp))
            rows.append(dict(self.store.all()))

    builder = ps.StreamsBuilder()
    supplier = ps.Stores.in_memory_key_value_store("rows")
    builder.add_state_store(ps.Stores.timestamped_key_value_store_builder(supplier, TEXT, TEXT).with_ttl(TTL))
    builder.stream("in", STRINGS).process(Keep, "rows")
    task = Bench(builder)
    sent = task.feed("in", ("a", "1", 100), ("b", "1", 110), ("c", "late", 100))
    assert [list(each) for each in rows] == [["a"], ["b"], ["b"]]
    assert task.dropped == 1
    assert shown(sent, changelog("rows")) == [("a", "1", 100), ("a", None, 110), ("b", "1", 110)]


def test_time_advances_without_records_if_configured() -> None:
    task = bench(table, config={"window.idle.advance.ms": 50})
    task.feed("in", ("a", "1", 100))
    assert not task.task.punctuate(49)
    task.task.punctuate(50)
    assert shown(task.collector.take()) == [("a", None, 110)]
    task.commit()
    again = bench(table, config={"window.idle.advance.ms": 50})
    again.task.resume(task.task.offsets())
    again.task.init(0)
    assert shown(again.feed("in", ("a", "late", 140), offset=1)) == []  # its time was 150
    assert again.dropped == 1


@pytest.mark.parametrize("idle", [False, True])
def test_rows_that_had_expired_at_the_commit_are_not_restored(idle: bool) -> None:
    """Rows that expired behind it are: tests/actors/test_changelog_ahead.py."""
    config = {"window.idle.advance.ms": 50} if idle else {}
    task = bench(joined, config=config)
    sent = task.feed("in", ("a", "1", 100))
    if idle:
        task.task.punctuate(50)
        sent += task.collector.take()
    else:
        sent += task.feed("other", ("b", "1", 110))
    again = bench(joined, config=config, start=False)
    again.state_manager.continue_from(task.task.offsets())
    rows = [each for each in sent if each.topic == changelog("rows")]
    assert len(rows) == 2
    keys, values = [each.key or b"" for each in rows], [each.value for each in rows]
    again.state_manager.restore("rows", keys, values, [each.timestamp for each in rows], 2)
    assert again.look_up("rows", b"a", committed=True) is None


def test_expired_rows_of_an_idle_cached_table_are_sent_with_the_next_commit() -> None:
    task = bench(table, caching=True, config={"window.idle.advance.ms": 50})
    task.feed("in", ("a", "1", 100), ("b", "1", 109))
    task.commit()
    for now in (50, 200):
        assert task.task.punctuate(now)
        assert not task.task.commit_requested
    assert shown(task.commit()) == [("a", None, 110), ("b", None, 119)]


def test_a_query_is_not_answered_with_what_has_expired() -> None:
    task = bench(table, caching=True)
    task.feed("in", ("a", "1", 100))
    task.commit()
    task.feed("in", ("b", "1", 110))
    assert task.look_up("rows", b"a", committed=False) is None
    assert [row.key for row in task.scan("rows", None, None, 10, committed=False)] == [b"b"]
    task.commit()
    assert [row.key for row in task.scan("rows", None, None, 10, committed=True)] == [b"b"]


def test_the_source_topic_is_no_changelog_of_a_table_that_expires() -> None:
    """It has no deletions of expired rows: a restore would bring them back."""
    builder = ps.StreamsBuilder()
    builder.table("in", STRINGS, ROWS.with_ttl(TTL))
    built = builder.build({"topology.optimization": "all"})
    assert built.store_builders["rows"].source_topic is None


def test_each_record_costs_what_expires_and_not_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    task = bench(table, ttl=1_000_000)
    task.feed("in", *[(f"k{number}", "v", number) for number in range(5000)])
    task.commit()
    looked_up: list[bytes] = []
    look_at = TtlBuffer.look_at

    def counted(self: TtlBuffer, key: bytes) -> Any:
        looked_up.append(key)
        return look_at(self, key)

    monkeypatch.setattr(TtlBuffer, "look_at", counted)
    task.feed("in", *[(f"k{number % 50}", "w", 5000 + number) for number in range(1000)])
    assert looked_up == []
    gone = shown(task.feed("in", ("x", "v", 1_000_000 + 59)))
    # Fifty were updated later: they are looked at, and noted again.
    assert len(gone) == 11
    assert len(looked_up) == 60


def test_rows_that_expire_all_at_once_are_not_kept_in_memory() -> None:
    task = bench(table)
    task.feed("in", *[(f"k{number}", "v", number // 1000) for number in range(5000)])
    task.commit()
    store = task.state_manager.store("rows")
    assert isinstance(store, TtlStateStore)
    store.forget_objects()
    assert len(shown(task.feed("in", ("x", "v", 1000)))) == 5001
    assert len(store.buffer.clean) <= 1


def test_a_long_life_of_updates_leaves_one_note_per_key() -> None:
    task = bench(table, ttl=100)
    for number in range(2000):
        task.feed("in", (f"k{number % 7}", "v", number * 10))
        if number % 50 == 0:
            task.commit()
    task.commit()
    assert len(list(task.stores.store("rows").scan(b"t", b"u"))) <= 3 * 7


def test_a_ttl_of_a_table_that_cannot_have_one_is_refused_at_the_call() -> None:
    builder = ps.StreamsBuilder()
    grouped = builder.stream("in", STRINGS).group_by_key()
    with pytest.raises(ps.TopologyError, match=r"a table of windows \('rows'\) cannot have a TTL: .*with_retention"):
        grouped.windowed_by(ps.TimeWindows.of_size_with_no_grace(5)).count(ROWS.with_ttl(TTL))
    with pytest.raises(ps.TopologyError, match=r"a table of sessions \('rows'\) cannot have a TTL"):
        grouped.windowed_by(ps.SessionWindows.of_inactivity_gap_with_no_grace(5)).count(ROWS.with_ttl(TTL))
    with pytest.raises(ps.TopologyError, match="versioned store cannot have a TTL"):
        ps.Materialized.as_(ps.Stores.persistent_versioned_key_value_store("v", 5)).with_ttl(TTL)
    with pytest.raises(ps.TopologyError, match="global_table 'g' cannot have a TTL"):
        builder.global_table("g", STRINGS, ROWS.with_ttl(TTL))
    table = builder.table("t", STRINGS)
    with pytest.raises(ps.TopologyError, match="count of a grouped table cannot have a TTL"):
        table.group_by(lambda key, value: (value, key)).count(ROWS.with_ttl(TTL))
    with pytest.raises(ps.TopologyError, match="a table without a store cannot have a TTL: name one"):
        table.filter(bool, ps.Materialized.with_(TEXT, TEXT).with_ttl(TTL))
    with pytest.raises(ps.TopologyError, match="a TTL must be 1 ms at least, not 0 ms"):
        ROWS.with_ttl(0)
    with pytest.raises(ValueError, match="ttl may not be negative"):
        ROWS.with_ttl(-1)
    keep = ps.Stores.timestamped_key_value_store_builder(ps.Stores.in_memory_key_value_store("s"), TEXT, TEXT)
    with pytest.raises(ps.TopologyError, match="a TTL must be 1 ms at least"):
        keep.with_ttl(0)
    with pytest.raises(ps.TopologyError, match="store 's' cannot have a TTL"):
        builder.add_global_store(keep.with_ttl(5).with_logging_disabled(), "g2", STRINGS, Idle)


def test_rows_without_a_ttl_are_not_taken_for_rows_with_one() -> None:
    one, other = ROWS.with_ttl(5).builder(_kind(), "rows", TEXT, TEXT), ROWS.builder(_kind(), "rows", TEXT, TEXT)
    assert one.layout != other.layout
    assert one.layout == ROWS.with_ttl(6).builder(_kind(), "rows", TEXT, TEXT).layout


def _kind() -> Any:
    return type(ps.Stores.timestamped_key_value_store_builder(ps.Stores.in_memory_key_value_store("s"), TEXT, TEXT))


@pytest.mark.parametrize("caching", [False, True], ids=["uncached", "cached"])
def test_on_its_own_disk_a_task_continues_with_what_it_had_noted(caching: bool, tmp_path: Path) -> None:
    """No changelog is read: the times at which rows expire are among the rows."""
    first = bench(table, caching=caching, state=tmp_path)
    first.feed("in", ("a", "1", 100), ("b", "1", 105), ("a", "2", 108))
    first.commit({"rows": 3})
    offsets = first.task.offsets()
    first.task.close()
    again = bench(table, caching=caching, state=tmp_path, start=False)
    again.task.resume(offsets)
    again.task.init(0)
    sent = again.feed("in", ("c", "1", 117), offset=3) + again.commit()
    assert shown(sent) == [("b", None, 115), ("c", "1", 117)]
    sent = again.feed("in", ("d", "1", 118), offset=4) + again.commit()
    assert shown(sent) == [("a", None, 118), ("d", "1", 118)]
    again.task.close()


def test_a_changelog_whose_records_have_headers_is_restored_like_any_other() -> None:
    """A store that kept headers before it was given a TTL has left such a changelog."""
    task = bench(table, start=False)
    rows = [b"a", b"b"], [b"1", b"2"], [100, 105]
    task.state_manager.restore("rows", *rows, next_offset=2, headers=[(("h", b"x"),), None])
    task.task.init(0)
    store = task.state_manager.store("rows").view()
    assert list(store.all()) == [("a", ("1", 100)), ("b", ("2", 105))]
    assert shown(task.feed("in", ("c", "3", 112))) == [("a", None, 110), ("c", "3", 112)]


class Wraps(ps.ProcessorWrapper):
    """Gives each supplier back unchanged, in a function."""

    def wrap_processor_supplier(self, name: str, supplier: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: supplier()

    def wrap_fixed_key_processor_supplier(self, name: str, supplier: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: supplier()


@pytest.mark.parametrize("build", [table, counts, joined], ids=lambda each: each.__name__)
@pytest.mark.parametrize("caching", [False, True], ids=["uncached", "cached"])
def test_a_table_that_is_wrapped_expires_like_any_other(build: Build, caching: bool) -> None:
    sent = []
    for config in ({}, {"processor.wrapper.class": Wraps}):
        task = bench(build, caching=caching, config=config)
        fed = task.feed("in", ("a", "1", 100), ("a", "2", 105), ("b", "1", 120), ("c", "1", 110))
        sent.append((shown(fed + task.commit()), task.task.metrics().dropped_records_total))
    assert sent[0] == sent[1]
    assert ("a", None, 115) in sent[0][0] or caching
    assert sent[0][1] == 1
