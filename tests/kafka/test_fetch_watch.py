"""A partition that gives nothing although the broker has more is found, and fetched again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as Tpo
from structlog.testing import capture_logs

from penstock.common.ids import TopicPartition
from penstock.kafka.broker_ends import BrokerEnds
from penstock.kafka.consumer import ConfluentConsumer
from penstock.kafka.contracts import BEGINNING, END
from penstock.kafka.fetch_watch import PATIENCE_S, FetchWatch, Stall
from penstock.kafka.fetcher import Event
from tests.kafka.conftest import Rig

TP, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
Look = tuple[float, int, int | None]
"""Time (seconds), position, and the end that the broker reports, None if it does not answer."""


def looks(watch: FetchWatch, *taken: Look) -> list[list[Stall]]:
    """Returns the stalls that each look finds."""
    found = []
    for now_s, position, end in taken:
        silent = watch.silent({TP: position})
        ends = {tp: end for tp in silent if end is not None}
        found.append(watch.stalled(now_s, {TP: position}, ends))
    return found


N = PATIENCE_S


@pytest.mark.parametrize(
    ("case", "taken"),
    [
        ("at its end", [(0, 5, 5), (N, 5, 5), (9 * N, 5, 5)]),
        ("behind, and moving", [(0, 5, 9), (N, 6, 9), (2 * N, 7, 9), (3 * N, 8, 9)]),
        ("an end below the position: a log that was cut", [(0, 5, 3), (N, 5, 3), (9 * N, 5, 3)]),
        ("seen once", [(0, 5, 9)]),
        ("behind for a moment only", [(0, 5, 5), (9 * N, 5, 9)]),
        ("the leader away", [(0, 5, 9), (N, 5, None), (2 * N, 5, None), (9 * N, 5, None)]),
        ("the leader away in between", [(0, 5, 5), (N, 5, 9), (2 * N, 5, None), (3 * N, 5, 9)]),
        ("moved in between", [(0, 5, 9), (N, 5, 9), (1.5 * N, 6, 9), (2 * N, 6, 9), (2.5 * N, 6, 9)]),
        ("at END, and nobody knows where that was", [(0, END, 9), (N, END, 9), (2 * N, END, 9)]),
    ],
)
def test_silence_is_lawful(case: str, taken: list[Look]) -> None:
    assert not any(looks(FetchWatch(), *taken)), case


def test_silence_while_the_broker_has_more_is_a_stall_once_it_lasts() -> None:
    found = looks(FetchWatch(), (0, 5, 5), (N, 5, 9), (1.9 * N, 5, 9), (2 * N, 5, 11))
    assert found == [[], [], [], [Stall(TP, 5, 11, N)]]


def test_a_partition_whose_beginning_is_not_found_is_stalled_even_if_it_is_empty() -> None:
    found = looks(FetchWatch(), (0, BEGINNING, 0), (N, BEGINNING, 0), (2 * N, BEGINNING, 0))
    assert found[-1] == [Stall(TP, BEGINNING, 0, N)]


def test_each_restart_doubles_the_patience_until_the_end_is_reached() -> None:
    watch = FetchWatch()
    assert looks(watch, (0, 5, 9), (N, 5, 9), (2 * N, 5, 9))[-1]
    watch.restarted()
    found = looks(watch, (3 * N, 5, 9), (4 * N, 5, 9), (5 * N, 5, 9))
    assert found == [[], [], [Stall(TP, 5, 9, 2 * N)]]
    watch.restarted()
    found = looks(watch, (6 * N, 6, 9), (7 * N, 6, 9), (10 * N, 6, 9), (11 * N, 6, 9))
    assert found == [[], [], [], [Stall(TP, 6, 9, 4 * N)]]
    watch.at_end(TP)
    assert not any(looks(watch, (12 * N, 9, 9), (13 * N, 9, 9)))
    assert looks(watch, (14 * N, 9, 12), (15 * N, 9, 12))[-1] == [Stall(TP, 9, 12, N)]


def test_a_partition_that_always_moves_reaches_its_end_too_and_is_found_as_soon_the_next_time() -> None:
    with closing(ConfluentConsumer("127.0.0.1:1", "group", {"fetch.wait.max.ms": "0"})) as consumer:
        consumer.assign({TP: 0})
        found, position = list[Stall](), 0
        for fault in range(5):
            now_s = fault * 100 * N
            found += looks(consumer._watch, *((now_s + n * N, position, position + 9) for n in range(3)))[-1]
            consumer._watch.restarted()
            for _ in range(3):  # records come again, and a few more at each look
                position += 9
                consumer._at_end(Event(TP.topic, TP.partition, position, KafkaError(KafkaError._PARTITION_EOF)))
                position += 1
                assert looks(consumer._watch, (now_s + 4 * N, position, position)) == [[]]
            position += 1
    assert [stall.silent_s for stall in found] == [N] * 5


def test_an_operation_that_is_never_answered_keeps_nobody_waiting_for_each_of_its_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Deaf:
        def list_offsets(self, partitions: dict[Any, Any], **_: object) -> dict[Any, Future[Any]]:
            answers: dict[Any, Future[Any]] = {partition: Future() for partition in partitions}
            next(iter(answers.values())).set_result(SimpleNamespace(offset=7))
            return answers

    monkeypatch.setattr("penstock.kafka.broker_ends.ANSWER_TIMEOUT_S", 0.1)
    ends = BrokerEnds("127.0.0.1:1", {})
    ends._client = Deaf()  # type: ignore[assignment]  # all of it that is used here
    ends.ask([TopicPartition("t", number) for number in range(2_000)])
    assert ends._asking is not None
    ends._asking.join(120)  # one after the other, they would take 200 s
    assert ends.take() == {TP: 7}
    assert ends._client is None, "next time another one asks"


def test_a_broker_may_keep_a_fetch_waiting_as_long_as_the_user_configures() -> None:
    with closing(ConfluentConsumer("127.0.0.1:1", "group", {"fetch.wait.max.ms": "60000"})) as consumer:
        found = looks(consumer._watch, *((n * N, 5, 9) for n in range(9)))
    assert found == [[]] * 8 + [[Stall(TP, 5, 9, 7 * N)]]


def test_while_others_give_it_may_take_six_times_as_long() -> None:
    watch, found = FetchWatch(), list[list[Stall]]()
    for number in range(8):
        positions = {TP: 5, OTHER: number}
        silent = watch.silent(positions)
        found.append(watch.stalled(number * N, positions, dict.fromkeys(silent, 1000)))
    assert silent == [TP]
    assert found == [[]] * 7 + [[Stall(TP, 5, 1000, 6 * N)]]


def catch_up(partitions: int, each_s: float, for_s: float = 3600) -> tuple[int, int]:
    """Returns how often a healthy consumer that is far behind is restarted, and its smallest position in a partition.
    A fetch takes ``each_s`` and brings one record of each of 12 partitions; the next one begins one partition later."""
    watch, positions = FetchWatch(), {TopicPartition("t", number): 0 for number in range(partitions)}
    ends = dict.fromkeys(positions, 1 << 62)
    restarts, first, answer_s, look_s = 0, 0, each_s, N
    while min(answer_s, look_s) < for_s:
        if answer_s <= look_s:
            for number in range(first, first + min(12, partitions)):
                positions[TopicPartition("t", number % partitions)] += 1
            first, answer_s = first + 1, answer_s + each_s
            continue
        silent = watch.silent(positions)
        if watch.stalled(look_s, positions, {tp: ends[tp] for tp in silent}):
            watch.restarted()
            restarts, first, answer_s = restarts + 1, 0, look_s + each_s
        look_s += N
    return restarts, min(positions.values())


@pytest.mark.parametrize(
    ("case", "partitions", "each_s", "most_restarts", "least"),
    [
        ("fast, many partitions", 60, 0.5, 0, 1400),
        ("more", 100, 1, 4, 380),
        ("a slow line", 24, 20, 6, 70),
        ("one large answer after the other", 1, 45, 3, 75),
    ],
)
def test_a_standby_that_catches_up_over_a_busy_line_is_left_alone_before_long(
    case: str, partitions: int, each_s: float, most_restarts: int, least: int
) -> None:
    restarts, got = catch_up(partitions, each_s)
    assert restarts <= most_restarts, case
    assert got >= least, case


def test_a_partition_that_something_else_than_records_moved_is_looked_at_again() -> None:
    watch = FetchWatch()
    looks(watch, (0, 5, 9), (N, 5, 9))
    watch.forget([TP])
    assert not any(looks(watch, (2 * N, 5, 9), (3 * N, 5, 9)))
    assert looks(watch, (4 * N, 5, 9))[-1] == [Stall(TP, 5, 9, N)]


def test_a_partition_that_is_paused_when_the_answer_comes_is_no_stall() -> None:
    watch = FetchWatch()
    looks(watch, (0, 5, 9), (N, 5, 9))
    assert watch.silent({TP: 5}) == [TP]
    watch.forget([TP])
    assert watch.stalled(2 * N, {}, {TP: 9}) == []


def test_a_record_that_comes_while_the_broker_is_asked_breaks_the_silence() -> None:
    watch = FetchWatch()
    looks(watch, (0, 5, 9), (N, 5, 9))
    assert watch.silent({TP: 5}) == [TP]
    assert watch.stalled(2 * N, {TP: 6}, {TP: 9}) == []


# ---- on a broker ----


@pytest.fixture
def consumer(real: Rig) -> Iterator[ConfluentConsumer]:
    with closing(real.clients.consumer()) as made:
        assert isinstance(made, ConfluentConsumer)
        yield made


@pytest.fixture
def hurry(consumer: ConfluentConsumer, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Returns a function after which a second of silence is a stall. Call it after the consumer has connected."""

    def begin() -> None:
        for module in ("fetch_watch", "consumer"):
            monkeypatch.setattr(f"penstock.kafka.{module}.PATIENCE_S", 1.0)
        consumer._look_at_s = 0.0

    return begin


def write(rig: Rig, topic: str, count: int, partition: int) -> None:
    with closing(rig.clients.producer()) as producer:
        for _ in range(count):
            producer.send(topic, None, b"v", 1, partition=partition)
        assert producer.flush(60)


def poll_until(consumer: ConfluentConsumer, ends: dict[TopicPartition, int]) -> dict[TopicPartition, list[int]]:
    """Returns the offsets that come until ``ends`` are reached."""
    read: dict[TopicPartition, list[int]] = {tp: [] for tp in ends}
    deadline = time.monotonic() + 120
    while any(consumer.position(tp) < end for tp, end in ends.items()):
        assert time.monotonic() < deadline, f"not within 120 s: {ends}, read {read}"
        for batch in consumer.poll(100, 0.02):
            read[batch.partition] += batch.offsets
    return read


def stop_giving(consumer: ConfluentConsumer, tp: TopicPartition) -> None:
    """Stops a partition unseen, as librdkafka does when it forgets one: its end is not updated either."""
    consumer._client.pause([Tpo(*tp)])


@pytest.mark.long
def test_a_stalled_partition_is_fetched_again_without_loss_or_repetition(
    real: Rig, consumer: ConfluentConsumer, hurry: Callable[[], None]
) -> None:
    topic = real.topic(partitions=3)
    stuck, busy, paused = (TopicPartition(topic, number) for number in range(3))
    for tp in (stuck, busy, paused):
        write(real, topic, 3, tp.partition)
    consumer.assign({stuck: BEGINNING, busy: BEGINNING, paused: BEGINNING})
    poll_until(consumer, {stuck: 3, busy: 3, paused: 3})
    hurry()
    consumer.pause([paused])
    stop_giving(consumer, stuck)
    for tp in (stuck, busy, paused):
        write(real, topic, 4, tp.partition)
    with capture_logs() as message:
        read = poll_until(consumer, {stuck: 7, busy: 7})
    assert read == {stuck: [3, 4, 5, 6], busy: [3, 4, 5, 6]}
    [line] = [line for line in message if line["event"] == "partition stalled, restarting the fetch"]
    assert line["log_level"] == "warning"
    assert (line["topic"], line["partition"], line["position"], line["end"]) == (topic, 0, 3, 7)
    assert line["silent_s"] >= 1.0
    consumer.resume([paused])
    assert poll_until(consumer, {paused: 7}) == {paused: [3, 4, 5, 6]}


@pytest.mark.long
def test_it_is_found_while_another_partition_gives_records_all_the_time(
    real: Rig, consumer: ConfluentConsumer, hurry: Callable[[], None]
) -> None:
    topic = real.topic(partitions=2)
    stuck, busy = (TopicPartition(topic, number) for number in range(2))
    write(real, topic, 1, 0)
    consumer.assign({stuck: BEGINNING, busy: BEGINNING})
    poll_until(consumer, {stuck: 1})
    hurry()
    stop_giving(consumer, stuck)
    write(real, topic, 1, 0)
    read: dict[TopicPartition, list[int]] = {stuck: [], busy: []}
    deadline = time.monotonic() + 120
    with closing(real.clients.producer()) as producer:
        sent = 0
        while not read[stuck]:
            assert time.monotonic() < deadline, "not within 120 s"
            producer.send(topic, None, b"v", 1, partition=1)
            producer.poll()
            sent += 1
            for batch in consumer.poll(100, 0.002):
                read[batch.partition] += batch.offsets
        assert producer.flush(60)
    for tp, offsets in poll_until(consumer, {busy: sent}).items():
        read[tp] += offsets
    assert read == {stuck: [1], busy: list(range(sent))}


@pytest.mark.long
def test_an_idle_partition_and_a_paused_one_are_left_alone(
    real: Rig, consumer: ConfluentConsumer, hurry: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = real.topic(partitions=2)
    idle, paused = (TopicPartition(topic, number) for number in range(2))
    write(real, topic, 2, 0)
    consumer.assign({idle: BEGINNING, paused: BEGINNING})
    consumer.pause([paused])
    write(real, topic, 2, 1)
    poll_until(consumer, {idle: 2})
    hurry()
    asked: list[list[TopicPartition]] = []
    ask = BrokerEnds.ask

    def counted(ends: BrokerEnds, partitions: list[TopicPartition]) -> None:
        asked.append(partitions)
        ask(ends, partitions)

    monkeypatch.setattr(BrokerEnds, "ask", counted)
    client = consumer._client
    deadline = time.monotonic() + 120
    while len(asked) < 4:
        assert time.monotonic() < deadline, asked
        consumer.poll(100, 0.02)
    assert asked == [[idle]] * 4
    assert consumer._client is client
    consumer.resume([paused])
    assert poll_until(consumer, {paused: 2}) == {paused: [0, 1]}
