"""The promises of every form of the Kafka clients: the fake broker and a real one pass the same tests."""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace

import pytest

from penstock.common.errors import MissingTopicError, ProductionError, RecordRefusedError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.measures import LATENCY_BOUNDS_MS, Sent
from penstock.common.murmur2 import partition_for
from penstock.common.records import SENT_NOW, RecordBatch
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import BEGINNING, Mark, RecordConsumer, RecordProducer, RefusedRecord
from penstock.kafka.counting import RECORD_OVERHEAD
from tests import waiting
from tests.kafka.conftest import Rig

Eventually = Callable[[Callable[[], bool], str], None]
Row = tuple[TopicPartition, int, bytes | None, bytes | None, int]


def write(rig: Rig, topic: str, *rows: tuple[bytes | None, bytes | None, int], partition: int = -1) -> None:
    with closing(rig.clients.producer()) as producer:
        for key, value, timestamp in rows:
            producer.send(topic, key, value, timestamp, None, partition)
        assert producer.flush(60)


def rows_of(batches: list[RecordBatch]) -> list[Row]:
    return [
        (batch.partition, *row)
        for batch in batches
        for row in zip(batch.offsets, batch.keys, batch.values, batch.timestamps, strict=True)
    ]


def read(consumer: RecordConsumer, count: int, eventually: Eventually, limit: int = 1000) -> list[RecordBatch]:
    batches: list[RecordBatch] = []

    def all_here() -> bool:
        batches.extend(consumer.poll(min(limit, count - sum(map(len, batches))), 0.05))
        return sum(map(len, batches)) >= count

    eventually(all_here, f"{count} records")
    assert sum(map(len, batches)) == count
    return batches


@contextmanager
def reading(rig: Rig, positions: dict[TopicPartition, int]) -> Iterator[RecordConsumer]:
    with closing(rig.clients.consumer()) as consumer:
        consumer.assign(positions)
        yield consumer


# ---- consumer and producer ----


def test_records_come_back_as_they_were_sent(rig: Rig, eventually: Eventually) -> None:
    topic = rig.topic()
    write(rig, topic, (b"k", b"v", 5), (None, b"no key", 6), (b"no value", None, 7), (b"", b"", 1_700_000_000_000))
    tp = TopicPartition(topic, 0)
    with reading(rig, {tp: BEGINNING}) as consumer:
        batches = read(consumer, 4, eventually)
    assert rows_of(batches) == [
        (tp, 0, b"k", b"v", 5),
        (tp, 1, None, b"no key", 6),
        (tp, 2, b"no value", None, 7),
        (tp, 3, b"", b"", 1_700_000_000_000),
    ]
    assert all(batch.headers is None for batch in batches)


def test_a_record_that_is_sent_without_a_time_gets_that_of_the_call(rig: Rig, eventually: Eventually) -> None:
    topic = rig.topic()
    before = _now_ms()
    write(rig, topic, (b"k", b"v", SENT_NOW), (b"k", None, SENT_NOW))
    after = _now_ms()
    with reading(rig, {TopicPartition(topic, 0): BEGINNING}) as consumer:
        times = [row[4] for row in rows_of(read(consumer, 2, eventually))]
    assert all(before <= time <= after for time in times), (before, times, after)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_time_zero_goes_out_as_one_millisecond_and_not_as_now(rig: Rig, eventually: Eventually) -> None:
    topic = rig.topic()
    write(rig, topic, (b"k", b"v", 0))
    with reading(rig, {TopicPartition(topic, 0): BEGINNING}) as consumer:
        assert rows_of(read(consumer, 1, eventually))[0][4] == 1


def test_headers_come_back_and_records_without_have_none(rig: Rig, eventually: Eventually) -> None:
    topic = rig.topic()
    with closing(rig.clients.producer()) as producer:
        producer.send(topic, b"a", b"1", 1, [("trace", b"x"), ("trace", None)])
        producer.send(topic, b"b", b"2", 2)
        assert producer.flush(60)
    with reading(rig, {TopicPartition(topic, 0): BEGINNING}) as consumer:
        headers = [h for b in read(consumer, 2, eventually) for h in (b.headers or [None] * len(b))]
    assert [h and list(h) for h in headers] == [[("trace", b"x"), ("trace", None)], None]


def test_a_counting_sender_sends_as_its_producer_does_and_reports_what_and_how_old_it_was(
    rig: Rig, eventually: Eventually
) -> None:
    topic, now = rig.topic(), _now_ms()
    headers = [("trace", b"xyz"), ("none", None)]
    with closing(rig.clients.producer()) as producer:
        sink = producer.counting()
        assert sink.take() == Sent()
        sink.send(topic, b"key", b"value", now - 3_000, headers)
        sink.send(topic, None, b"", now - 30_000_000, None, 0)
        sink.send(topic, b"k", None, now + 60_000)
        sink.send(topic, b"k", b"v", SENT_NOW)
        took_ms = _now_ms() - now + 1
        assert producer.flush(60)
        sent = sink.take()
        other = producer.counting()
    with reading(rig, {TopicPartition(topic, 0): BEGINNING}) as consumer:
        batches = read(consumer, 4, eventually)
    assert [row[2:4] for row in rows_of(batches)] == [(b"key", b"value"), (None, b""), (b"k", None), (b"k", b"v")]
    assert batches[0].headers is not None
    assert list(batches[0].headers[0] or ()) == headers
    assert sent.records == 4
    assert sent.bytes == 4 * (RECORD_OVERHEAD + len(topic)) + 8 + 0 + 1 + 2 + len("trace") + 3 + len("none")
    places = {bucket: count for bucket, count in enumerate(sent.latency.counts) if count}
    # A record without a time has no latency; one from the future counts as of this moment.
    [of_the_first] = places.keys() - {0, len(LATENCY_BOUNDS_MS)}
    assert places == {0: 1, of_the_first: 1, len(LATENCY_BOUNDS_MS): 1}
    assert _bucket(3_000) <= of_the_first <= _bucket(3_000 + took_ms), f"sent within {took_ms} ms"
    assert sent.latency_min_ms == 0
    assert sent.latency_max_ms is not None
    assert -COARSE_MS <= sent.latency_max_ms - 30_000_000 <= took_ms
    assert -COARSE_MS <= sent.latency.total_ms - sent.latency_max_ms - 3_000 <= took_ms
    assert (sink.take().latency_min_ms, other.take().records) == (None, 0)


COARSE_MS = 20
"""Milliseconds by which the clock that is read for each record may be behind: it is the coarse one, which is cheap."""


def _bucket(latency_ms: int) -> int:
    return bisect_left(LATENCY_BOUNDS_MS, latency_ms)


def test_a_batch_reports_the_bytes_of_its_keys_and_values(real: Rig, eventually: Eventually) -> None:
    topic = real.topic()
    write(real, topic, (b"key", b"value", 1), (None, b"x", 2), (b"k", None, 3))
    with reading(real, {TopicPartition(topic, 0): BEGINNING}) as consumer:
        assert sum(batch.size for batch in read(consumer, 3, eventually)) == 10


def test_keys_go_where_the_java_client_sends_them(rig: Rig, eventually: Eventually) -> None:
    topic = rig.topic(partitions=4)
    keys = [f"user-{number}".encode() for number in range(50)]
    write(rig, topic, *((key, b"v", 1) for key in keys))
    with reading(rig, {TopicPartition(topic, p): BEGINNING for p in range(4)}) as consumer:
        found = {key: tp.partition for tp, _, key, _, _ in rows_of(read(consumer, 50, eventually))}
    assert found == {key: partition_for(key, 4) for key in keys}


def test_a_given_partition_is_obeyed(rig: Rig, eventually: Eventually) -> None:
    topic = rig.topic(partitions=3)
    write(rig, topic, (b"a", b"1", 1), (b"b", b"2", 2), partition=2)
    with reading(rig, {TopicPartition(topic, p): BEGINNING for p in range(3)}) as consumer:
        assert {tp.partition for tp, *_ in rows_of(read(consumer, 2, eventually))} == {2}


def test_each_batch_is_of_one_partition_and_no_larger_than_asked(rig: Rig, eventually: Eventually) -> None:
    topic, other = rig.topic(partitions=2), rig.topic(partitions=2)
    for name in (topic, other):
        for partition in (0, 1):
            write(rig, name, *((None, b"%d" % n, n + 1) for n in range(25)), partition=partition)
    partitions = [TopicPartition(name, p) for name in (topic, other) for p in (0, 1)]
    with reading(rig, dict.fromkeys(partitions, BEGINNING)) as consumer:
        batches = read(consumer, 100, eventually, limit=7)
    assert max(map(len, batches)) <= 7
    for tp in partitions:
        assert [row[1] for row in rows_of(batches) if row[0] == tp] == list(range(25))


def test_closing_twice_is_allowed(rig: Rig) -> None:
    for client in (rig.clients.consumer(), rig.clients.producer()):
        client.close()
        client.close()


# ---- refused records ----


def test_a_record_larger_than_the_topic_allows_is_noticed_at_flush(rig: Rig, eventually: Eventually) -> None:
    topic = rig.topic(max_message_bytes="1000")
    with closing(rig.clients.producer()) as producer:
        producer.send(topic, b"big", b"x" * 5000, 1)
        with pytest.raises(ProductionError, match=topic) as refused:
            eventually(lambda: producer.flush(0.2), "the refusal")
        assert refused.value.topic == topic
        with pytest.raises(ProductionError, match=topic):
            producer.poll()


def test_a_record_larger_than_any_topic_allows_is_refused_at_once(rig: Rig) -> None:
    topic = rig.topic()
    with closing(rig.clients.producer()) as producer:
        with pytest.raises(RecordRefusedError, match="large") as refused:
            producer.send(topic, b"big", b"x" * 3_000_000, 1)
        assert not refused.value.late
        assert producer.take_refused() == []


def test_each_record_that_the_broker_refuses_is_handed_over_whole(rig: Rig, eventually: Eventually) -> None:
    topic = rig.topic(max_message_bytes="1000")
    large = [RefusedRecord(topic, 0, b"big", b"x" * 1500), RefusedRecord(topic, 0, None, b"y" * 1600)]
    with closing(rig.clients.producer()) as producer:
        found: list[RefusedRecord] = []

        def refused() -> bool:
            with suppress(RecordRefusedError):
                producer.flush(0.05)
            found.extend(producer.take_refused())
            return len(found) == 2

        for record in large:
            producer.send(topic, record.key, record.value, 7, [("trace", b"7")], 0)
        eventually(refused, "both refusals")
        assert found == large
        with pytest.raises(RecordRefusedError, match=topic) as raised:
            producer.poll()
        assert raised.value.late
        eventually(lambda: producer.give_up(0.2), "the end of what was queued")
        producer.send(topic, b"small", b"x", 1)
        eventually(lambda: producer.flush(0.2), "the delivery")
        assert producer.take_refused() == []


def test_a_broker_refuses_a_batch_as_a_whole_and_each_record_of_it_is_handed_over(
    real: Rig, eventually: Eventually
) -> None:
    """So a record may be among them that is not at fault: see ``refused_records.py``."""
    topic = real.topic(max_message_bytes="1000")
    assert isinstance(real.clients, ConfluentClients)
    # They are one batch even if the process is stopped between two of them. ``flush`` does not wait for the linger.
    lingering = replace(real.clients, producer_overrides={"linger.ms": 60_000})
    with closing(lingering.producer()) as producer:
        producer.send(topic, b"first", b"", 1, None, 0)
        eventually(lambda: producer.flush(0.2), "the delivery")
        for key, value in ((b"a", b"small"), (b"b", b"x" * 5000), (b"c", b"small")):
            producer.send(topic, key, value, 1, None, 0)
        found: list[RefusedRecord] = []

        def refused() -> bool:
            with suppress(RecordRefusedError):
                producer.flush(0.05)
            found.extend(producer.take_refused())
            return len(found) == 3

        eventually(refused, "the refusals")
        assert [record.key for record in found] == [b"a", b"b", b"c"]


def test_records_that_are_refused_are_forgotten_with_the_rest(rig: Rig, eventually: Eventually) -> None:
    topic = rig.topic(max_message_bytes="1000")
    with closing(rig.clients.producer()) as producer:
        producer.send(topic, b"big", b"x" * 5000, 1)
        with pytest.raises(RecordRefusedError):
            eventually(lambda: producer.flush(0.2), "the refusal")
        eventually(lambda: producer.give_up(0.2), "the end of what was queued")
        assert producer.take_refused() == []


def test_partitions_are_counted_and_an_unknown_topic_is_named(rig: Rig) -> None:
    topic = rig.topic(partitions=3)
    with closing(rig.clients.producer()) as producer:
        assert producer.partitions(topic) == 3
        with pytest.raises(MissingTopicError, match="'nowhere'"):
            producer.partitions("nowhere")


# ---- what was delivered ----


def delivered(producer: RecordProducer, mark: Mark) -> Callable[[], bool]:
    def is_so() -> bool:
        producer.flush(0.05)
        return mark.delivered()

    return is_so


def test_a_mark_is_reached_when_all_that_was_sent_before_is_acknowledged(rig: Rig, eventually: Eventually) -> None:
    topic = rig.topic(partitions=2)
    with closing(rig.clients.producer()) as producer:
        nothing = producer.mark()
        assert nothing.delivered()
        assert nothing.ends() == {}
        for number in range(5):
            producer.send(topic, b"k%d" % number, b"v", 1, None, 0)
        producer.send(topic, b"k", b"v", 1, [("h", b"x")], 1)
        mark = producer.mark()
        eventually(delivered(producer, mark), "the records")
        assert mark.ends() == {TopicPartition(topic, 0): 5, TopicPartition(topic, 1): 1}


def test_records_sent_after_a_mark_do_not_move_its_end(rig: Rig, eventually: Eventually) -> None:
    topic = rig.topic()
    tp = TopicPartition(topic, 0)
    with closing(rig.clients.producer()) as producer:
        marks = []
        for count in (3, 4, 0, 1):
            for _ in range(count):
                producer.send(topic, b"k", b"v", 1, None, 0)
            marks.append(producer.mark())
        eventually(delivered(producer, marks[-1]), "the last mark")
        assert [mark.delivered() for mark in marks] == [True] * 4
        assert [mark.ends() for mark in marks] == [{tp: 3}, {tp: 7}, {}, {tp: 8}]


def test_a_record_whose_partition_the_client_chooses_is_waited_for_and_reports_no_offset(
    rig: Rig, eventually: Eventually
) -> None:
    topic = rig.topic(partitions=3)
    with closing(rig.clients.producer()) as producer:
        for number in range(30):
            producer.send(topic, b"k%d" % number, b"v", 1)
        mark = producer.mark()
        eventually(delivered(producer, mark), "the records")
        assert mark.ends() == {}
    ends = rig.clients.admin().end_offsets([TopicPartition(topic, p) for p in range(3)])
    assert sum(ends.values()) == 30


def test_records_that_others_write_behind_the_last_record_are_not_part_of_the_end(
    rig: Rig, eventually: Eventually
) -> None:
    topic = rig.topic()
    tp = TopicPartition(topic, 0)
    with closing(rig.clients.producer()) as producer:
        for others in (2, 3):
            producer.send(topic, b"k", b"v", 1, None, 0)
            mark = producer.mark()
            eventually(delivered(producer, mark), "the record")
            write(rig, topic, *((b"other", b"v", 1) for _ in range(others)))
            assert mark.ends() == {tp: {2: 1, 3: 4}[others]}
    assert rig.clients.admin().end_offsets([tp]) == {tp: 7}


def test_a_mark_behind_a_refused_record_is_never_reached(rig: Rig, eventually: Eventually) -> None:
    topic = rig.topic(max_message_bytes="1000")
    with closing(rig.clients.producer()) as producer:
        producer.send(topic, b"big", b"x" * 5000, 1, None, 0)
        mark = producer.mark()
        after = producer.mark()
        with pytest.raises(ProductionError, match=topic):
            eventually(lambda: producer.flush(0.2), "the refusal")
        assert not mark.delivered()
        assert not after.delivered()
        assert mark.ends() == {}


# ---- admin ----


def test_a_broker_that_is_up_is_reached(rig: Rig) -> None:
    rig.clients.admin().reach()


def test_topics_are_created_listed_and_deleted(rig: Rig) -> None:
    admin = rig.clients.admin()
    topic = rig.topic(partitions=3)
    assert admin.topics()[topic] == 3
    admin.create_topics([NewTopic(topic, 5)])
    assert admin.topics()[topic] == 3
    admin.delete_topics([topic, "never-was"])
    assert topic not in admin.topics()


def test_the_settings_of_topics_are_reported(rig: Rig) -> None:
    admin = rig.clients.admin()
    topic, plain = rig.topic(cleanup_policy="compact,delete", retention_ms="1234"), rig.topic()
    configs = admin.topic_configs([topic, plain])
    assert (configs[topic]["cleanup.policy"], configs[topic]["retention.ms"]) == ("compact,delete", "1234")
    assert configs[plain]["cleanup.policy"] == "delete"
    assert admin.topic_configs([]) == {}


def test_each_partition_is_led_by_a_broker_with_an_address(rig: Rig) -> None:
    topic = rig.topic(partitions=2)
    found = rig.clients.admin().brokers()
    for number in range(2):
        replicas = found.partitions[TopicPartition(topic, number)]
        assert replicas.leader in replicas.brokers
        assert replicas.in_sync == replicas.brokers
        assert replicas.leader in found.addresses
    assert all(re.fullmatch(r".+:\d+", address) for address in found.addresses.values())


def test_a_topic_that_is_deleted_and_created_again_has_another_id(rig: Rig) -> None:
    admin = rig.clients.admin()
    topic, other = rig.topic(), rig.topic()
    ids = admin.topic_ids([topic, other, "no-such-topic"])
    assert ids.keys() == {topic, other}
    assert ids[topic] != ids[other]
    assert admin.topic_ids([topic]) == {topic: ids[topic]}
    admin.delete_topics([topic])
    waiting.eventually(lambda: topic not in admin.topics(), "the topic is deleted")
    admin.create_topics([NewTopic(topic, 1)])
    assert admin.topic_ids([topic])[topic] != ids[topic]
    assert admin.topic_ids([]) == {}


def test_the_delete_retention_of_compacted_topics_is_reported_and_other_topics_are_left_out(rig: Rig) -> None:
    short = rig.topic(cleanup_policy="compact", delete_retention_ms="1234")
    usual = rig.topic(cleanup_policy="compact,delete")
    plain = rig.topic(cleanup_policy="delete")
    admin = rig.clients.admin()
    assert admin.delete_retention_ms([short, usual, plain]) == {short: 1234, usual: 86_400_000}
    assert admin.delete_retention_ms([]) == {}


def test_offsets_are_committed_from_outside_with_their_metadata(rig: Rig) -> None:
    topic = rig.topic(partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    admin = rig.clients.admin()
    assert admin.committed(rig.group) == {}
    admin.commit(rig.group, {first: CommittedOffset(3, "AgAAAAAAAAAK")})
    assert admin.committed(rig.group) == {first: CommittedOffset(3, "AgAAAAAAAAAK")}
    with closing(rig.clients.consumer()) as consumer:
        assert consumer.committed([first, second]) == {first: CommittedOffset(3, "AgAAAAAAAAAK")}
        assert consumer.committed([]) == {}
