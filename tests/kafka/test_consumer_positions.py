"""The positions of the consumer, from what librdkafka hands over: records and the events between them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Tpo
from confluent_kafka.admin._metadata import ClusterMetadata, TopicMetadata
from structlog.testing import capture_logs

from penstock.common.errors import BrokerUnreachableError, MissingTopicError
from penstock.common.ids import TopicPartition
from penstock.kafka.consumer import ConfluentConsumer
from penstock.kafka.fetcher import MessageFetcher
from penstock.kafka.settings import MISSING_TOPIC, POSITION_LOST, RETRIABLE, UNREACHABLE

TP = TopicPartition("t", 0)


class Client:
    """Hands over what the test prepared."""

    def __init__(self) -> None:
        self.ready: list[Message] = []
        self.high = 0
        self.topic_exists = True
        self.answers = True
        self.assigned: dict[TopicPartition, int] = {}

    def consume(self, most: int, timeout_s: float) -> list[Message]:
        taken, self.ready = self.ready[:most], self.ready[most:]
        return taken

    def get_watermark_offsets(self, partition: Tpo, cached: bool) -> tuple[int, int]:
        return 0, self.high

    def incremental_assign(self, partitions: list[Tpo]) -> None:
        self.assigned |= {TopicPartition(at.topic, at.partition): at.offset for at in partitions}

    def offsets_for_times(self, asked: list[Tpo], timeout_s: float) -> list[Tpo]:
        if not self.answers:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return [Tpo(at.topic, at.partition, 9) for at in asked]

    def pause(self, partitions: list[Tpo]) -> None:
        pass

    incremental_unassign = resume = pause

    def close(self) -> None:
        pass

    def list_topics(self, topic: str, timeout_s: float) -> ClusterMetadata:
        if not self.answers:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        found, listed = ClusterMetadata(), TopicMetadata()
        listed.error = None if self.topic_exists else KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        found.topics = {topic: listed}
        return found


def record(offset: int) -> Message:
    return Message(topic=TP.topic, partition=TP.partition, offset=offset, value=b"v", timestamp=(1, 7))


def end(offset: int) -> Message:
    eof = KafkaError(KafkaError._PARTITION_EOF)
    return Message(topic=TP.topic, partition=TP.partition, offset=offset, error=eof)


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def consumer(client: Client) -> ConfluentConsumer:
    made = ConfluentConsumer("127.0.0.1:1", "group", {})
    made.close()
    made._client = client  # type: ignore[assignment]  # all of it that is used here
    made._fetcher = MessageFetcher(made._client)
    made.assign({TP: 0})
    return made


def test_markers_behind_the_last_record_are_passed_when_the_end_comes_with_the_records(
    client: Client, consumer: ConfluentConsumer
) -> None:
    client.high = 3
    client.ready = [record(0), record(1), end(3)]
    assert [list(batch.offsets) for batch in consumer.poll(10, 0)] == [[0, 1]]
    assert consumer.position(TP) == consumer.end_offset(TP) == 3


def test_an_end_that_more_records_follow_is_not_the_end_any_more(client: Client, consumer: ConfluentConsumer) -> None:
    client.high = 6
    client.ready = [record(0), end(1), *map(record, range(1, 6))]
    consumer.poll(2, 0)
    assert (consumer.position(TP), consumer.end_offset(TP)) == (1, 6), "the others are fetched, and still queued"
    consumer.poll(1, 0)
    assert (consumer.position(TP), consumer.end_offset(TP)) == (2, 6)
    consumer.poll(10, 0)
    assert (consumer.position(TP), consumer.end_offset(TP)) == (6, 6)


def test_offsets_with_gaps_stay_what_they_are(client: Client, consumer: ConfluentConsumer) -> None:
    client.ready = [record(0), record(2), record(3)]
    assert [list(batch.offsets) for batch in consumer.poll(10, 0)] == [[0, 2, 3]]
    assert consumer.position(TP) == 4


def failure(code: int) -> Message:
    return Message(topic=TP.topic, partition=TP.partition, offset=0, error=KafkaError(code))


@pytest.mark.parametrize("code", sorted(RETRIABLE | UNREACHABLE))
def test_reading_continues_after_an_error_that_passes_by_itself(
    client: Client, consumer: ConfluentConsumer, code: int
) -> None:
    client.ready = [failure(code), record(0)]
    assert [list(batch.offsets) for batch in consumer.poll(10, 0)] == [[0]]


@pytest.mark.parametrize("code", sorted(POSITION_LOST))
def test_a_lost_position_is_reported_once_and_the_records_beside_it_are_not_lost(
    client: Client, consumer: ConfluentConsumer, code: int
) -> None:
    other = TopicPartition("t", 1)
    consumer.assign({TP: 5, other: 0})
    client.ready = [failure(code), Message(topic="t", partition=1, offset=0, value=b"v", timestamp=(1, 7))]
    assert [batch.partition for batch in consumer.poll(10, 0)] == [other]
    assert consumer.lost_positions() == {TP: 0}
    assert consumer.lost_positions() == {}


def test_a_lost_position_is_the_one_behind_the_records_that_came_with_it(
    client: Client, consumer: ConfluentConsumer
) -> None:
    client.ready = [record(0), record(1), failure(KafkaError.OFFSET_OUT_OF_RANGE)]
    assert [list(batch.offsets) for batch in consumer.poll(10, 0)] == [[0, 1]]
    assert consumer.lost_positions() == {TP: 2}


@pytest.mark.parametrize("code", sorted(MISSING_TOPIC))
def test_a_topic_that_is_unknown_for_a_moment_is_read_on_and_one_that_is_gone_is_an_error(
    client: Client, consumer: ConfluentConsumer, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr("penstock.kafka.missing_topics._PATIENCE_S", 0.0)
    client.ready = [failure(code), record(0)]
    assert [list(batch.offsets) for batch in consumer.poll(10, 0)] == [[0]]
    client.ready = [failure(code)]
    client.topic_exists = False
    with pytest.raises(MissingTopicError, match="topic 't' does not exist any more"):
        consumer.poll(10, 0)


def test_a_topic_that_is_unknown_is_not_asked_for_before_its_broker_had_time(
    client: Client, consumer: ConfluentConsumer
) -> None:
    client.topic_exists = False
    client.ready = [failure(KafkaError.UNKNOWN_TOPIC_OR_PART), record(0)]
    assert [list(batch.offsets) for batch in consumer.poll(10, 0)] == [[0]]


def test_a_broker_that_is_away_when_an_unknown_topic_is_asked_for_is_waited_for(
    client: Client, consumer: ConfluentConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.kafka.missing_topics._PATIENCE_S", 0.0)
    client.answers = False
    client.ready = [failure(KafkaError.UNKNOWN_TOPIC_OR_PART), record(0)]
    assert [list(batch.offsets) for batch in consumer.poll(10, 0)] == [[0]]
    client.answers, client.ready = True, [record(1)]
    assert [list(batch.offsets) for batch in consumer.poll(10, 0)] == [[1]]


def test_an_outage_in_which_a_topic_is_unknown_is_one_log_line_however_often_it_is_noticed(
    client: Client, consumer: ConfluentConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.kafka.missing_topics._PATIENCE_S", 0.0)
    with capture_logs() as lines:
        client.answers = False
        for _ in range(5):
            client.ready = [failure(KafkaError._UNKNOWN_PARTITION)]
            assert consumer.poll(10, 0) == []
    assert [line["event"] for line in lines] == ["topic unknown to the broker"]
    with capture_logs() as lines:
        client.answers, client.ready = True, [record(0)]
        consumer.poll(10, 0)
        client.ready = [failure(KafkaError._UNKNOWN_PARTITION)]
        consumer.poll(10, 0)
    assert [line["event"] for line in lines] == ["topic unknown to the broker"], "of the next outage"


class Stable:
    """The last stable offset, when it is known."""

    known: int | None = None

    def end(self, partition: TopicPartition, watermark: int) -> int | None:
        return self.known


def test_at_the_high_watermark_nobody_is_asked_for_the_last_stable_offset(
    client: Client, consumer: ConfluentConsumer
) -> None:
    consumer._stable = stable = Stable()  # type: ignore[assignment]  # all of it that is used here
    stable.known = 1
    client.high = 2
    client.ready = [record(0), end(2)]
    consumer.poll(10, 0)
    assert consumer.position(TP) == consumer.end_offset(TP) == 2


def test_an_open_transaction_is_nothing_to_wait_for_when_only_committed_records_are_read(
    client: Client, consumer: ConfluentConsumer
) -> None:
    consumer._stable = stable = Stable()  # type: ignore[assignment]  # all of it that is used here
    client.high = 3
    client.ready = [record(0), record(1), end(2)]
    consumer.poll(10, 0)
    assert consumer.end_offset(TP) == 3, "nobody knows yet that it is open"
    client.high = 4
    assert consumer.end_offset(TP) == 4, "nobody knows yet what was written"
    stable.known = 2
    assert consumer.end_offset(TP) == consumer.position(TP) == 2
    stable.known = 4
    assert consumer.end_offset(TP) == 4


class Ends:
    """Keeps the partitions that the broker is asked about, and never answers."""

    def __init__(self) -> None:
        self.asked_about: list[list[TopicPartition]] = []
        self.asked = False

    def ask(self, partitions: list[TopicPartition]) -> None:
        self.asked_about.append(partitions)


@pytest.fixture
def ends(consumer: ConfluentConsumer) -> Ends:
    consumer._ends = ends = Ends()  # type: ignore[assignment]  # all of it that is used here
    consumer._look_at_s = 0.0
    return ends


def test_no_partition_is_suspected_while_records_wait_in_the_queue(
    client: Client, consumer: ConfluentConsumer, ends: Ends
) -> None:
    other = TopicPartition("t", 1)
    consumer.assign({TP: 0, other: 0})
    client.ready = [record(0), record(1), record(2), record(3)]
    for _ in range(3):
        consumer.poll(1, 0)
        consumer._look_at_s = 0.0
    assert ends.asked_about == [], "the other one's may be behind them"
    consumer.poll(2, 0)
    consumer._look_at_s = 0.0
    consumer.poll(2, 0)
    assert ends.asked_about == [[TP, other]]


def test_a_lost_position_is_not_suspected_before_a_seek_but_others_are(
    client: Client, consumer: ConfluentConsumer, ends: Ends
) -> None:
    client.ready = [failure(KafkaError.OFFSET_OUT_OF_RANGE)]
    for _ in range(3):
        consumer.poll(10, 0)
        consumer._look_at_s = 0.0
    assert (consumer.lost_positions(), ends.asked_about) == ({TP: 0}, [])
    other = TopicPartition("t", 1)
    consumer.assign({TP: 0, other: 0})
    for _ in range(2):
        consumer.poll(10, 0)
        consumer._look_at_s = 0.0
    assert ends.asked_about == [[other]]
    consumer.seek(TP, 7)
    for _ in range(2):
        consumer.poll(10, 0)
        consumer._look_at_s = 0.0
    assert set(ends.asked_about[-1]) == {TP, other}


def test_pausing_and_resuming_begins_the_time_again(client: Client, consumer: ConfluentConsumer, ends: Ends) -> None:
    consumer.poll(10, 0)
    consumer.pause([TP])
    for _ in range(3):
        consumer._look_at_s = 0.0
        consumer.poll(10, 0)
    consumer.resume([TP])
    consumer._look_at_s = 0.0
    consumer.poll(10, 0)
    assert ends.asked_about == []
    consumer._look_at_s = 0.0
    consumer.poll(10, 0)
    assert ends.asked_about == [[TP]]


@dataclass
class Clock:
    now: float = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.mark.parametrize("lost", [False, True], ids=["", "while a position is lost"])
def test_a_client_that_nobody_answers_for_long_is_replaced_at_the_same_positions(
    client: Client, consumer: ConfluentConsumer, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    clock, other = Clock(), Client()
    monkeypatch.setattr("penstock.kafka.consumer.time", clock)
    monkeypatch.setattr("penstock.kafka.consumer.Consumer", lambda settings: other)
    monkeypatch.setattr("penstock.kafka.consumer.open_fetcher", lambda made, overrides: MessageFetcher(made))
    client.ready = [record(0), record(1), *([failure(KafkaError.OFFSET_OUT_OF_RANGE)] if lost else [])]
    consumer.poll(10, 0)
    client.answers = False

    def ask() -> bool:
        try:
            return bool(consumer.fetch_end_offsets([TP]))
        except BrokerUnreachableError:
            return False

    for after_s in (0, 29.9):
        clock.now = 1000 + after_s
        assert not ask()
        assert consumer._client is client  # type: ignore[comparison-overlap]  # put in its place
    client.answers = True
    assert ask(), "an answer, and the time begins anew"
    client.answers = False
    for after_s in (40, 69.9, 70):
        assert consumer._client is client  # type: ignore[comparison-overlap]
        clock.now = 1000 + after_s
        assert not ask()
    assert consumer._client is other  # type: ignore[comparison-overlap]
    assert other.assigned == {TP: 2}
    assert ask()
    other.ready = [record(2)]
    assert [list(batch.offsets) for batch in consumer.poll(10, 0)] == [[2]]
