"""``deduplicate``: against a model that remembers everything, over restarts, and what it does at its edges."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.common.ids import TopicPartition
from tests.parity.restarts import RestartingDriver
from tests.tasks.bench import STRINGS, Bench, changelog, values
from tests.tiers import examples

TEXT = ps.Serdes.string()
NOTHING: dict[str, str] = {}
NUMBER: dict[str, Any] = {"v": 1}
SEEN: ps.Deduplicated[Any, Any, Any] = ps.Deduplicated.as_("seen")


class Event(NamedTuple):
    key: str | None
    id: str | None
    timestamp: int


def program(within: int, retention: int | None, by_id: bool) -> ps.Topology:
    how = SEEN if retention is None else SEEN.with_retention(retention)
    builder = ps.StreamsBuilder()
    stream = builder.stream("in", STRINGS)
    once = (
        stream.deduplicate(within, lambda value: value, how.with_id_serde(TEXT))
        if by_id
        else stream.deduplicate(within, deduplicated=how)
    )
    once.to("out", ps.Produced.with_(TEXT, TEXT))
    return builder.build()


def expected(events: Sequence[Event], within: int, retention: int, by_id: bool) -> list[Event]:
    """Returns the events that go through, found by looking at all that went through before."""
    through: list[Event] = []
    remembered: list[Event] = []
    newest = -1
    for event in events:
        if event.key is None or (by_id and event.id is None):
            through.append(event)
            continue
        newest = max(newest, event.timestamp)
        remembered = [each for each in remembered if each.timestamp >= newest - retention]
        same = [each for each in remembered if each.key == event.key and (not by_id or each.id == event.id)]
        if any(abs(each.timestamp - event.timestamp) <= within for each in same):
            continue
        through.append(event)
        if event.timestamp >= newest - retention:
            remembered.append(event)
    return through


# An interval of more than a minute has rows in several segments, and loses some of them.
INTERVALS = st.sampled_from([1, 2, 7, 50_000, 90_000])


@st.composite
def runs(draw: st.DrawFn) -> tuple[int, int | None, bool, list[Event], set[int]]:
    within = draw(INTERVALS)
    retention = draw(st.none() | st.sampled_from([within, within + within // 2, 5 * within]))
    steps = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["a", "a\0", "b", None]),
                st.sampled_from(["x", "", "\0x", None]),
                # Quarters of an interval, and ms, from the newest record.
                st.integers(-16, 6),
                st.integers(-1, 1),
            ),
            max_size=40,
        )
    )
    now, events = 0, []
    for key, id, quarters, ms in steps:
        timestamp = max(now + quarters * max(within // 4, 1) + ms, 0)
        now = max(now, timestamp)
        events.append(Event(key, id, timestamp))
    return within, retention, draw(st.booleans()), events, draw(st.sets(st.integers(0, 40), max_size=3))


@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "rocksdb"])
def test_records_pass_as_in_the_model_over_any_restarts(on_disk: bool) -> None:
    @settings(max_examples=examples(30 if on_disk else 150))
    @given(runs())
    def check(run: tuple[int, int | None, bool, list[Event], set[int]]) -> None:
        within, retention, by_id, events, restarts = run
        with tempfile.TemporaryDirectory() as folder:
            state = Path(folder) if on_disk else None
            driver = RestartingDriver(program(within, retention, by_id), {}, state)
            with driver:
                for number, event in enumerate(events):
                    if number in restarts:
                        state = None if state is None else Path(folder) / str(number)
                        driver._state = state  # another node: all of it comes from the changelog
                        driver.restart()
                    raw = [None if part is None else part.encode() for part in event[:2]]
                    driver.pipe("in", raw[0], raw[1], event.timestamp)
                out = driver.create_output_topic("out", TEXT, TEXT)
                shown = [Event(each.key, each.value, each.timestamp) for each in out.read_records_to_list()]
        assert shown == expected(events, within, 2 * within if retention is None else retention, by_id)

    check()


def dedup(within: int = 10) -> ps.StreamsBuilder:
    builder = ps.StreamsBuilder()
    builder.stream("in", STRINGS).deduplicate(within, deduplicated=SEEN).to("out", ps.Produced.with_(TEXT, TEXT))
    return builder


def test_the_first_goes_through_and_those_of_its_interval_do_not() -> None:
    bench = Bench(dedup())
    shown = bench.feed("in", ("k", "0", 100), ("k", "1", 110), ("k", "2", 90), ("k", "3", 111), ("k", "4", 89))
    assert values(shown) == ["0", "3", "4"]
    assert bench.dropped == 0


def test_a_record_that_comes_again_and_again_goes_through_once_per_interval() -> None:
    bench = Bench(dedup())
    shown = bench.feed("in", *[("k", str(time), time) for time in range(34)])
    assert values(shown) == ["0", "11", "22", "33"]


def test_headers_and_timestamp_stay() -> None:
    bench = Bench(dedup())
    (sent,) = bench.feed("in", ("k", "v", 5, [("h", b"1")]), ("k", "w", 6, [("h", b"2")]))
    assert (sent.key, sent.value, sent.timestamp, list(sent.headers or ())) == (b"k", b"v", 5, [("h", b"1")])


def crashed(bench: Bench, builder: ps.StreamsBuilder, after: list[Any]) -> Bench:
    """Returns a new task, restored from the changelog, at the committed offset: nothing since was committed."""
    sent = [each for each in after if each.topic == changelog("seen")]
    again = Bench(builder, start=False)
    again.state_manager.restore(
        "seen", [each.key for each in sent], [each.value for each in sent], [each.timestamp for each in sent], len(sent)
    )
    again.task.init(0)
    return again


def test_a_record_that_is_processed_again_goes_through_again() -> None:
    """Its row is in the changelog, but its offset was not committed, and its result may not have been written: taking
    it for its own duplicate would lose it."""
    records = [("k", "first", 100), ("k", "second", 105), ("j", "third", 106)]
    before = Bench(dedup())
    assert values(before.feed("in", *records)) == ["first", "third"]
    again = crashed(before, dedup(), before.flush())
    assert values(again.feed("in", *records)) == ["first", "third"]


def test_several_records_that_are_made_of_one_are_duplicates_also_when_it_is_processed_again() -> None:
    def twice() -> ps.StreamsBuilder:
        builder = ps.StreamsBuilder()
        stream = builder.stream("in", STRINGS).flat_map_values(lambda value: [value, value])
        stream.deduplicate(10, deduplicated=SEEN).to("out", ps.Produced.with_(TEXT, TEXT))
        return builder

    before = Bench(twice())
    assert values(before.feed("in", ("k", "v", 100))) == ["v"]
    again = crashed(before, twice(), before.flush())
    assert values(again.feed("in", ("k", "v", 100), ("k", "w", 101))) == ["v"]


def test_after_a_backfill_a_record_with_an_offset_of_its_shuffles_is_a_duplicate() -> None:
    """The offsets of a shuffle begin at 0, as those of the live topic do."""
    before = Bench(dedup(), start=False, keeps_places=False)
    before.task.init(0)
    assert values(before.feed("in", ("k", "v", 100))) == ["v"]
    again = crashed(before, dedup(), before.flush())
    assert values(again.feed("in", ("k", "v", 100))) == []


def test_another_record_with_the_same_offset_is_a_duplicate() -> None:
    builder = ps.StreamsBuilder()
    merged = builder.stream("in", STRINGS).merge(builder.stream("other", STRINGS))
    once = merged.deduplicate(10, deduplicated=ps.Deduplicated.with_(TEXT).with_store_name("seen"))
    once.to("out", ps.Produced.with_(TEXT, TEXT))
    bench = Bench(builder)
    bench.add("in", ("k", "in", 100))
    bench.add("other", ("k", "other", 101))
    bench.run()
    assert values(bench.collector.take("out")) == ["in"]


def test_after_a_flush_of_a_cache_each_update_knows_its_own_source() -> None:
    builder = ps.StreamsBuilder()
    counts = builder.stream("in", STRINGS).group_by_key().count().to_stream()
    counts.deduplicate(10, deduplicated=SEEN).to("out", ps.Produced.with_(TEXT, ps.Serdes.long()))
    bench = Bench(builder)
    bench.feed("in", ("a", "v", 100), ("b", "v", 100), ("a", "v", 101))
    bench.commit()
    seen = {row[0].key: row[1] for row in bench.state_manager.store("seen").view().all()}
    assert seen == {"a": ps.FirstSeen(101, 2, "in"), "b": ps.FirstSeen(100, 1, "in")}


class Marks(ps.FixedKeyProcessor[Any, Any, Any]):
    """Forwards each record with other headers."""

    def init(self, context: ps.FixedKeyProcessorContext[Any, Any]) -> None:
        self.context = context

    def process(self, record: ps.FixedKeyRecord[Any, Any]) -> None:
        self.context.forward(record.with_headers([("made", b"here")]))


class Unchanged(ps.ProcessorWrapper):
    """Wraps each operator in a processor that passes on what it is given."""

    def wrap_processor_supplier(self, name: str, supplier: Any) -> Any:
        return lambda: supplier()


@pytest.mark.parametrize("wrapper", [None, Unchanged])
def test_also_behind_a_processor_and_in_a_wrapper(wrapper: Any) -> None:
    builder = ps.StreamsBuilder()
    counts = builder.stream("in", STRINGS).group_by_key().count().to_stream()
    marked = counts if wrapper else counts.process_values(Marks)
    marked.deduplicate(10, deduplicated=SEEN).to("out", ps.Produced.with_(TEXT, ps.Serdes.long()))
    bench = Bench(builder, {"processor.wrapper.class": wrapper} if wrapper else {})
    bench.feed("in", ("a", "v", 100), ("b", "v", 100), ("a", "v", 101))
    bench.commit()
    seen = {row[0].key: row[1].offset for row in bench.state_manager.store("seen").view().all()}
    assert seen == {"a": 2, "b": 1}


def test_a_stream_whose_key_may_have_changed_is_repartitioned_and_null_keys_stay() -> None:
    builder = ps.StreamsBuilder()
    keyed = builder.stream("in", STRINGS).select_key(lambda value: value or None)
    how: Any = SEEN.with_key_serde(TEXT).with_name("once")
    keyed.deduplicate(10, deduplicated=how).to("out")
    topology = builder.build()
    assert "topic: once-repartition" in str(topology.describe())
    config = {"default.key.serde": TEXT, "default.value.serde": TEXT}
    with ps.TopologyTestDriver(topology, config) as driver:
        records = driver.create_input_topic("in", TEXT, TEXT)
        for value in ("a", "", "a", "", "b"):
            records.pipe_input("k", value, 5)
        shown = driver.create_output_topic("out", TEXT, TEXT).read_key_values_to_list()
    assert shown == [("a", "a"), (None, ""), (None, ""), ("b", "b")]


def test_the_state_goes_with_the_retention() -> None:
    """Rows of segments that have expired are deleted: the store does not grow for ever."""
    bench = Bench(dedup(60_000))
    for number in range(100):
        bench.feed("in", (f"k{number}", "v", number * 60_000))
        bench.commit()
    assert bench.stores.store("seen").approximate_num_entries() < 10


def test_impossible_settings_are_refused_at_the_call() -> None:
    stream = ps.StreamsBuilder().stream("in", STRINGS)
    with pytest.raises(ps.TopologyError, match="within must be 1 ms at least, not 0 ms"):
        stream.deduplicate(0)
    with pytest.raises(ValueError, match="within may not be negative"):
        stream.deduplicate(-1)
    with pytest.raises(ps.TopologyError, match="a retention of 5 ms is shorter than the interval of 10 ms"):
        stream.deduplicate(10, deduplicated=ps.Deduplicated.as_("s").with_retention(5))
    with pytest.raises(ps.TopologyError, match="an id_serde without an id_extractor"):
        stream.deduplicate(10, deduplicated=ps.Deduplicated.as_("s").with_id_serde(TEXT))
    wrong: Any = ps.Materialized.as_("s")
    with pytest.raises(ps.TopologyError, match="deduplicate needs a Deduplicated, not "):
        stream.deduplicate(10, deduplicated=wrong)
    with pytest.raises(ps.TopologyError, match="deduplicate: id_extractor must be callable"):
        stream.deduplicate(10, wrong)


def test_an_id_without_a_serde_is_reported() -> None:
    builder = ps.StreamsBuilder()
    builder.stream("in", STRINGS).deduplicate(10, lambda value: value, SEEN).to("out")
    with pytest.raises(
        ps.ConfigError,
        match=r"store seen\): nothing says how ids are serialised: pass Deduplicated\.with_id_serde\(\.\.\.\), or set",
    ):
        ps.TopologyTestDriver(builder.build())


def test_an_id_that_its_serde_does_not_accept_is_an_error_that_names_the_serde() -> None:
    builder = ps.StreamsBuilder()
    builder.stream("in", STRINGS).deduplicate(10, lambda value: NUMBER[value], SEEN.with_id_serde(TEXT))
    with pytest.raises(ps.ProcessingError, match=r"the id: the serde string cannot write 1 \(int\).*with_id_serde"):
        Bench(builder).feed("in", ("k", "v", 1))


def test_an_extractor_that_raises_names_operator_and_record() -> None:
    builder = ps.StreamsBuilder()
    builder.stream("in", STRINGS).deduplicate(10, lambda value: NOTHING[value], SEEN.with_id_serde(TEXT))
    bench = Bench(builder)
    with pytest.raises(ps.ProcessingError, match=r"KeyError: .v. .operator KSTREAM-DEDUPLICATE-0000000001"):
        bench.feed("in", ("k", "v", 1))


def test_committed_offsets_carry_the_observed_stream_time() -> None:
    bench = Bench(dedup())
    bench.feed("in", ("k", "v", 100))
    bench.commit()
    offset = bench.task.offsets()[TopicPartition("in", 0)]
    again = Bench(dedup(), start=False)
    again.task.resume({TopicPartition("in", 0): offset})
    again.task.init(0)
    # Both are older than what is remembered; the store is empty here.
    assert values(again.feed("in", ("j", "late", 79), ("j", "late", 79), offset=1)) == ["late", "late"]
    assert values(again.feed("in", ("j", "in time", 95), ("j", "again", 95))) == ["in time"]
