"""Joins of two streams, beyond the parity cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from penstock.common.config import StreamsConfig
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.tasks.offsets import encode_partition_time
from penstock.topology.physical.topic_plan import plan_topics
from tests.tasks.bench import STRINGS, Bench, Resume, Sent, changelog

NEAR = ps.JoinWindows.of_time_difference_with_no_grace(10)
TEXT = ps.Serdes.string()


def joined(
    call: str,
    windows: ps.JoinWindows = NEAR,
    how: ps.StreamJoined[str, str, str] | None = None,
    joiner: Callable[..., Any] = "{}+{}".format,
    rekey: bool = False,
) -> ps.StreamsBuilder:
    builder = ps.StreamsBuilder()
    left, right = builder.stream("left", STRINGS), builder.stream("right", STRINGS)
    if rekey:
        left, right = left.select_key(lambda key, _: key), right.select_key(lambda key, _: key)
    join: Any = getattr(left, call)
    join(right, joiner, windows, how).to("out", ps.Produced.with_(TEXT, TEXT))
    return builder


def out(sent: list[Sent]) -> list[tuple[str | None, str | None, int]]:
    return [
        (each.key and each.key.decode(), each.value and each.value.decode(), each.timestamp)  # type: ignore[misc]
        for each in sent
        if each.topic == "out"
    ]


# ---- null keys and values ----


@pytest.mark.parametrize(
    ("call", "side", "alone"),
    [
        ("join", "left", None),
        ("left_join", "left", "v+None"),
        ("left_join", "right", None),
        ("outer_join", "left", "v+None"),
        ("outer_join", "right", "None+v"),
    ],
)
def test_a_null_key_is_joined_alone_at_once_or_dropped_and_counted(call: str, side: str, alone: str | None) -> None:
    bench = Bench(joined(call))
    sent = bench.feed(side, (None, "v", 5))
    assert out(sent) == ([] if alone is None else [(None, alone, 5)])
    assert bench.dropped == (alone is None)
    assert not [each for each in sent if each.topic != "out"]


@pytest.mark.parametrize("call", ["join", "left_join", "outer_join"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_null_value_is_dropped_and_counted_and_joins_with_nothing(call: str, side: str) -> None:
    other = "right" if side == "left" else "left"
    bench = Bench(joined(call))
    bench.feed(side, ("k", None, 5))
    assert bench.dropped == 1
    assert not out(bench.feed(other, ("k", "v", 5)))


# ---- time ----


def test_both_ends_of_a_window_belong_to_it() -> None:
    bench = Bench(joined("join", NEAR.before(3).after(4)))
    bench.feed("left", ("k", "a", 100))
    assert [out(bench.feed("right", ("k", str(time), time))) for time in (96, 97, 104, 105)] == [
        [],
        [("k", "a+97", 100)],
        [("k", "a+104", 104)],
        [],
    ]


def test_a_record_of_the_last_time_there_is_joins_after_a_restart_too() -> None:
    latest = (1 << 63) - 1
    bench = Bench(joined("join"))
    bench.feed("left", ("k", "a", latest))
    bench.commit()
    again = Bench(joined("join"), stores=bench.stores)
    assert out(again.feed("right", ("k", "b", latest))) == [("k", "a+b", latest)]


def test_a_window_may_lie_wholly_behind_its_record() -> None:
    bench = Bench(joined("join", NEAR.before(-3).after(5)))
    bench.feed("left", ("k", "a", 100))
    assert [len(out(bench.feed("right", ("k", "b", time)))) for time in (102, 103, 105, 106)] == [0, 1, 1, 0]


def test_matches_come_in_the_order_of_time_and_of_one_time_as_they_came() -> None:
    bench = Bench(joined("join"))
    bench.feed("right", ("k", "1", 7), ("k", "2", 3), ("k", "3", 7), ("other", "x", 5), ("k", "4", 5))
    assert [value for _, value, _ in out(bench.feed("left", ("k", "a", 6)))] == ["a+2", "a+4", "a+1", "a+3"]


def test_a_late_record_joins_what_is_still_kept() -> None:
    grace = ps.JoinWindows.of_time_difference_and_grace(10, 50)
    bench = Bench(joined("join", grace))
    bench.feed("right", ("k", "b", 100), ("later", "x", 169))
    assert out(bench.feed("left", ("k", "a", 95))) == [("k", "a+b", 100)]
    bench.feed("right", ("later", "x", 170))
    assert out(bench.feed("left", ("k", "a", 95))) == []


def itself(where: str, *times: int) -> list[int]:
    """Joins a stream with itself. Returns the times of the results of all ``times`` after the first. Before these, the
    task restarts with its stores or from the changelog, unless ``where`` is "running"."""
    builder = ps.StreamsBuilder()
    stream = builder.stream("in", STRINGS)
    windows = ps.JoinWindows.of_time_difference_and_grace(10, 30)
    stream.join(stream, "{}+{}".format, windows).to("out", ps.Produced.with_(TEXT, TEXT))
    config = {"topology.optimization": "all"}
    bench = Bench(builder, config)
    assert len(bench.program.stores) == 1
    logged = bench.feed("in", ("first", "a", times[0]))
    bench.commit()
    offsets = bench.task.offsets()
    if where != "running":
        bench = Bench(builder, config, stores=bench.stores if where == "the same disk" else None, start=False)
        bench.state_manager.continue_from(offsets)
        (store,) = bench.program.stores
        rows = [each for each in logged if each.topic == changelog(store) and where == "its changelog"]
        columns = [each.key for each in rows], [each.value for each in rows], [each.timestamp for each in rows]
        bench.state_manager.restore(store, *columns, len(rows))
        bench.task.resume(offsets)
        bench.task.init(0)
    return [time for _, _, time in out(bench.feed("in", *(("k", "b", time) for time in times[1:]), offset=1))]


@pytest.mark.parametrize("where", ["running", "the same disk", "its changelog"])
def test_a_record_that_comes_too_late_does_not_join_itself_after_a_restart_either(where: str) -> None:
    # Kafka Streams begins again without a time, and takes it.
    retention_ms = 10 + 10 + 30
    assert itself(where, 1000, 1000 - retention_ms + 1) == []
    assert itself(where, 1000, 1000 - retention_ms + 2) == [1000 - retention_ms + 2]


def test_a_record_without_a_match_waits_for_its_window_and_the_grace_period_to_close() -> None:
    bench = Bench(joined("left_join", ps.JoinWindows.of_time_difference_and_grace(10, 5)))
    headers = (("h", b"x"),)
    assert out(bench.feed("left", ("k", "a", 100))) == []
    assert out(bench.feed("right", ("other", "b", 115))) == []
    sent = bench.feed("right", ("other", "b", 116, headers))
    assert out(sent) == [("k", "a+None", 100)]
    assert [each.headers for each in sent if each.topic == "out"] == [headers]


def test_what_kafka_streams_has_emitted_after_a_commit_of_penstock_does_not_wait_again() -> None:
    windows = ps.JoinWindows.of_time_difference_and_grace(10, 5)
    bench = Bench(joined("left_join", windows))
    sent = bench.feed("left", ("k", "a", 100))
    bench.commit()
    (waiting,) = (each for each in sent if "OUTERSHARED" in each.topic)
    # Kafka Streams continues: it emits the record when one at 116 comes, and commits that in the other partition alone.
    emitted = CommittedOffset(1, encode_partition_time(116))
    offsets = {**bench.task.offsets(), TopicPartition("right", 0): emitted}
    again = Bench(joined("left_join", windows), start=False)
    again.state_manager.continue_from(offsets)
    store = next(name for name in again.program.stores if changelog(name) == waiting.topic)
    again.state_manager.restore(store, [waiting.key] * 2, [waiting.value, None], [100, 116], 2)
    again.task.resume(offsets)
    again.task.init(0)
    assert out(again.feed("right", ("other", "b", 200), offset=1)) == []


def test_one_that_comes_after_its_window_has_closed_is_given_at_once() -> None:
    bench = Bench(joined("outer_join"))
    bench.feed("right", ("other", "b", 111))
    assert out(bench.feed("left", ("k", "a", 100))) == [("k", "a+None", 100)]


def test_records_without_a_match_are_kept_in_a_store_that_both_sides_share() -> None:
    bench = Bench(joined("outer_join", how=ps.StreamJoined.as_("pairs")))
    bench.feed("left", ("k", "a", 1), ("k", "b", 1))
    waiting = [each for each in bench.collector.sent if "shared" in each.topic]
    assert not waiting
    sent = bench.feed("left", ("k", "c", 2)) + bench.feed("right", ("k", "x", 1))
    waiting = [each for each in sent if each.topic == changelog("pairs-outer-shared-join-store")]
    assert [each.value and each.value.hex() for each in waiting] == ["0100000001000000020163", None, None]
    assert [value for _, value, _ in out(sent)] == ["a+x", "b+x", "c+x"]


def test_records_of_one_key_and_time_wait_in_one_row() -> None:
    bench = Bench(joined("left_join", how=ps.StreamJoined.as_("pairs")))
    sent = bench.feed("left", ("k", "a", 1), ("k", "bc", 1))
    rows = [each for each in sent if each.topic == changelog("pairs-left-shared-join-store")]
    assert [(each.key and each.key.hex(), each.value and each.value.hex()) for each in rows] == [
        ("0000000000000001016b", "0100000001000000020161"),
        ("0000000000000001016b", "010000000200000002016100000003016263"),
    ]
    assert [value for _, value, _ in out(bench.feed("right", ("x", "y", 50)))] == ["a+None", "bc+None"]


# ---- memory and disk ----


def test_rows_that_expire_before_a_commit_are_never_written() -> None:
    bench = Bench(joined("join", how=ps.StreamJoined.as_("pairs")))
    bench.feed("left", *[("k", str(time), time) for time in range(0, 100_000, 50)])
    bench.commit()
    rows = list(bench.stores.store("pairs-this-join-store").scan(None, None))
    assert len(rows) < 50
    assert len(bench.collector.sent) == 0


@pytest.mark.parametrize("call", ["join", "left_join"])
def test_rows_that_memory_has_no_room_for_are_found_on_disk(call: str) -> None:
    bench = Bench(joined(call, ps.JoinWindows.of_time_difference_with_no_grace(10_000)))
    bench.feed("left", *[(f"k{number % 7}", str(number), 1000 + 10 * number) for number in range(500)])
    bench.commit()
    bench.feed("left", ("k1", "last", 6000))
    for name in bench.state_manager.store_names:
        while bench.state_manager.store(name).drop_unused():
            pass
    bench.feed("left", ("k1", "more", 6000))
    found = [str(value) for _, value, _ in out(bench.feed("right", ("k1", "x", 6000)))]
    assert found == [f"{number}+x" for number in range(1, 500, 7)] + ["last+x", "more+x"]


# ---- functions and names ----


def test_a_joiner_may_take_the_key() -> None:
    bench = Bench(joined("outer_join", joiner=lambda key, left, right: f"{key}:{left}+{right}"))
    bench.feed("right", ("k", "b", 5), ("x", "c", 5))
    assert out(bench.feed("left", ("k", "a", 6), ("later", "a", 50))) == [("k", "k:a+b", 6), ("x", "x:None+c", 5)]


def test_a_joiner_that_raises_drops_its_record_if_the_handler_decides_so() -> None:
    def picky(left: str, right: str | None) -> str:
        if left == "bad":
            raise ValueError("bad")
        return f"{left}+{right}"

    resume = Resume()
    bench = Bench(joined("left_join", joiner=picky), {"processing.exception.handler": resume})
    bench.feed("left", ("k", "bad", 5), ("l", "good", 5))
    assert out(bench.feed("right", ("k", "b", 6), ("x", "c", 50))) == [("l", "good+None", 5)]
    assert [each.context.processor_node_id for each in resume.caught] == ["KSTREAM-OUTEROTHER-0000000005"]


def test_names_of_operators_stores_and_topics() -> None:
    how = ps.StreamJoined.with_(TEXT, TEXT, TEXT).with_name("orders").with_store_name("kept")
    topology = joined("outer_join", how=how, rekey=True).build()
    names = {node.name for sub in topology.subtopologies for node in sub.nodes}
    assert names >= {
        *("orders-this-windowed", "orders-other-windowed", "orders-merge"),
        *("orders-outer-this-join", "orders-outer-other-join"),
    }
    assert set(topology.store_builders) == {
        *("kept-outer-this-join-store", "kept-outer-other-join-store", "kept-outer-shared-join-store"),
    }
    assert set(topology.repartition_topics) == {"orders-left-repartition", "orders-right-repartition"}


def test_the_changelogs_are_kept_as_long_as_their_rows_can_be_joined() -> None:
    windows = ps.JoinWindows.of_time_difference_and_grace(10_000, 5_000)
    how: ps.StreamJoined[str, str, str] = ps.StreamJoined.as_("kept").with_logging_enabled({"segment.bytes": "9"})
    topology = joined("left_join", windows, how).build()
    plan = plan_topics(topology, StreamsConfig.of({"application.id": "a"}), {"left": 3, "right": 3, "out": 1})
    configs = {
        each.name.removeprefix("a-kept-").removesuffix("-store-changelog"): each.config for each in plan.internal
    }
    assert {name: (each["cleanup.policy"], each.get("retention.ms")) for name, each in configs.items()} == {
        "this-join": ("delete", str(25_000 + 86_400_000)),
        "outer-other-join": ("delete", str(25_000 + 86_400_000)),
        "left-shared-join": ("compact", None),
    }
    assert {each["segment.bytes"] for each in configs.values()} == {"9"}
    plain = joined("outer_join", how=ps.StreamJoined[str, str, str]().with_logging_disabled()).build()
    assert not any(store.logging for store in plain.store_builders.values())


def test_stores_of_suppliers() -> None:
    this = ps.Stores.in_memory_window_store("this", 20, 20, retain_duplicates=True)
    other = ps.Stores.persistent_window_store("other", 20, 20, retain_duplicates=True)
    how = ps.StreamJoined.with_(TEXT, TEXT, TEXT).with_this_store_supplier(this).with_other_store_supplier(other)
    builder = joined("outer_join", how=how)
    kept = {name: store.persistent for name, store in builder.build().store_builders.items()}
    assert kept == {"this": False, "other": True, "this-outer-shared-join-store": False}


# ---- what is refused ----


def test_topics_of_different_counts_of_partitions_are_named() -> None:
    config = StreamsConfig.of({"application.id": "a"})
    with pytest.raises(ps.TopologyError, match="'left' has 3, 'right' has 4"):
        plan_topics(joined("join").build(), config, {"left": 3, "right": 4, "out": 1})


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((), ps.TopologyError, "join with a KStream needs JoinWindows, not None"),
        ((ps.Joined.as_("j"),), ps.TopologyError, "join with a KStream needs JoinWindows, not Joined"),
        ((NEAR, "kept"), ps.TopologyError, r"join needs a StreamJoined, not 'kept' \(str\): pass StreamJoined.as_"),
        (
            (NEAR, None, None),
            ps.TopologyError,
            r"join with a KStream takes \(other, joiner, windows\[, stream_joined\]\): too",
        ),
        (
            (NEAR, ps.StreamJoined().with_this_store_supplier(ps.Stores.in_memory_window_store("s", 20, 20))),
            ps.TopologyError,
            "store 's' does not fit its join: it needs retention_period=20 .* and retain_duplicates=True",
        ),
    ],
)
def test_wrong_arguments_of_a_join_are_refused_at_the_call(
    arguments: tuple[Any, ...], error: type[Exception], text: str
) -> None:
    builder = ps.StreamsBuilder()
    left, right = builder.stream("left"), builder.stream("right")
    with pytest.raises(error, match=text):
        left.join(right, max, *arguments)


def test_streams_of_two_builders_and_tables_that_are_outer_joined_are_refused() -> None:
    builder = ps.StreamsBuilder()
    left: Any = builder.stream("left")
    with pytest.raises(ps.TopologyError, match="same StreamsBuilder"):
        left.join(ps.StreamsBuilder().stream("right"), max, NEAR)
    with pytest.raises(ps.TopologyError, match="outer_join of a KStream needs a KStream, not a KTable"):
        left.outer_join(builder.table("right"), max)
    with pytest.raises(ps.TopologyError, match=r"join with a KTable takes .*joined\]\): got an .*'windows'"):
        left.join(builder.table("right"), max, windows=NEAR)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ps.JoinWindows.of_time_difference_with_no_grace(-1), "time_difference may not be negative: -1 ms"),
        (
            lambda: ps.JoinWindows.of_time_difference_and_grace(1, -2),
            "grace period after_window_end may not be nega",
        ),
        (lambda: NEAR.before(-11), "the window ends before it begins: .* -11 [+] 10"),
        (lambda: NEAR.after(-11), "the window ends before it begins"),
    ],
)
def test_a_window_that_cannot_be_is_refused(make: Callable[[], ps.JoinWindows], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()


def test_a_value_that_the_stores_serde_refuses_is_reported_with_the_store() -> None:
    builder = ps.StreamsBuilder()
    left, right = builder.stream("left", STRINGS), builder.stream("right", STRINGS)
    how = ps.StreamJoined.with_(TEXT, ps.Serdes.long(), TEXT).with_store_name("kept")
    left.map_values(lambda value: value).join(right, lambda a, b: b, NEAR, how).to("out")  # type: ignore[arg-type]
    bench = Bench(builder, {"default.value.serde": TEXT})
    with pytest.raises(ps.ProcessingError, match=r"store kept-this-join-store: the value of key \[k@5/25\] cannot be"):
        bench.feed("left", ("k", "v", 5))


def test_records_that_wait_for_a_match_count_as_memory_also_when_their_values_are_on_disk() -> None:
    bench = Bench(joined("outer_join", ps.JoinWindows.of_time_difference_with_no_grace(10**6)))
    bench.feed("left", *((f"k{number}", "v", 5) for number in range(2000)))
    bench.commit()
    stores = [bench.state_manager.store(name) for name in bench.state_manager.store_names]
    for _ in range(3):
        for store in stores:
            store.drop_unused()
    assert 2000 * 100 < sum(store.resident_bytes() for store in stores) < 2000 * 300
