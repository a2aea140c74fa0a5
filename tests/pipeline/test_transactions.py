"""A backfill reads of transactions what the live application's consumers read, and continues where they would."""

from __future__ import annotations

import pytest

from penstock.common.config import StreamsConfig
from penstock.common.errors import ApplicationStateError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.serdes import Serdes
from penstock.common.topics import NewTopic
from penstock.kafka.contracts import TransactionalProducer
from penstock.testing.fake_clients import FakeClients
from tests.pipeline.test_plan import counted_by_value
from tests.pipeline.topologies import STRING
from tests.pipeline.without_spark import backfill_without_spark

LINES = TopicPartition("lines", 0)
PARKED = "app-counts-repartition"
CHANGELOG = "app-counts-changelog"


class History:
    """The application of ``test_plan.py``, and a writer of transactions."""

    def __init__(self, guarantee: str) -> None:
        self.clients = FakeClients("app", read_committed=guarantee == "exactly_once_v2")
        self.broker = self.clients.broker
        serdes = {"default.key.serde": STRING, "default.value.serde": STRING}
        self.config = StreamsConfig.of({"application.id": "app", "processing.guarantee": guarantee, **serdes})
        internal = [PARKED, CHANGELOG]
        self.clients.admin().create_topics(NewTopic(topic, 1) for topic in ("lines", "out", *internal))

    def write(self, topic: str, *values: str, end: str = "commit") -> TransactionalProducer:
        producer = self.clients.transactional_producer(f"{topic}-{'-'.join(values)}")
        producer.init_transactions().result()
        producer.begin_transaction()
        for value in values:
            producer.send(topic, value.encode(), value.encode(), 1, None, 0)
        assert producer.flush(1)
        if end == "commit":
            producer.commit_transaction({}, b"").result()
        elif end == "abort":
            producer.abort_transaction().result()
        return producer

    def backfill(self) -> None:
        backfill_without_spark(counted_by_value(), self.config, self.clients, 100)

    def counts(self) -> list[tuple[bytes | None, int]]:
        long = Serdes.long()
        return [(record.key, long.deserialize(record.value or b"")) for record in self.broker.records("out")]


def test_exactly_once_it_reads_what_is_committed_up_to_the_first_transaction_that_is_open() -> None:
    history = History("exactly_once_v2")
    history.write("lines", "a")
    history.write("lines", "b", end="abort")
    history.write("lines", "c")
    left_open = history.write("lines", "d", end="")
    history.write("lines", "e")
    history.backfill()
    assert history.counts() == [(b"a", 1), (b"c", 1)]
    assert history.broker.committed("app")[LINES].offset == 6
    left_open.commit_transaction({}, b"").result()
    history.backfill()
    assert history.counts() == [(b"a", 1), (b"c", 1), (b"d", 1), (b"e", 1)]
    assert history.broker.committed("app")[LINES].offset == history.broker.log(LINES).end


def test_at_least_once_it_reads_all_that_is_there_as_live_consumers_do() -> None:
    history = History("at_least_once")
    history.write("lines", "a")
    history.write("lines", "b", end="abort")
    history.write("lines", "c", end="")
    history.backfill()
    assert history.counts() == [(b"a", 1), (b"b", 1), (b"c", 1)]
    assert history.broker.committed("app")[LINES].offset == 5


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_markers_and_what_was_aborted_are_no_records_that_wait_in_a_repartition_topic(end: str) -> None:
    history = History("exactly_once_v2")
    history.write(PARKED, "a", end=end)
    processed = 1 if end == "commit" else 0
    with history.broker.changed:
        offset = CommittedOffset(processed, "")
        history.broker.group("app").offsets[TopicPartition(PARKED, 0)] = offset
    history.write("lines", "b")
    history.backfill()
    assert history.counts() == [(b"b", 1)]
    history.write(PARKED, "c")
    with pytest.raises(ApplicationStateError, match="records that the application has not processed yet"):
        history.backfill()


def test_rows_that_were_aborted_are_no_state_of_unknown_age() -> None:
    history = History("exactly_once_v2")
    history.write(CHANGELOG, "a", end="abort")
    history.write("lines", "b")
    history.backfill()
    assert history.counts() == [(b"b", 1)]
    fresh = History("exactly_once_v2")
    fresh.write(CHANGELOG, "a")
    with pytest.raises(ApplicationStateError, match="holds rows, but application 'app' has committed no offset"):
        fresh.backfill()
