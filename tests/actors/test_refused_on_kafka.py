"""Results that a real broker refuses: too large ones among good ones, and the dead letters of their input records."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.actors.commit_messages import CommitAnswer, CommitRequest
from penstock.actors.loop.lease import Lease
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.spec import ApplicationSpec
from penstock.common.config import StreamsConfig
from penstock.common.errors import BrokerUnreachableError
from penstock.common.ids import CommittedOffset, TaskId, TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import BEGINNING
from tests.kafka.stable import until_stable
from tests.waiting import eventually

STRING = ps.Serdes.string()
TASK = TaskId(0, 0)


class Letters(ps.ProductionExceptionHandler):
    """Writes the input record of each refused result to ``topic``."""

    def __init__(self, topic: str) -> None:
        self.topic = topic

    def handle_error(
        self, context: ps.ErrorHandlerContext, record: ps.ProducerRecord[Any, Any], error: Exception
    ) -> ps.Response:
        return ps.Response.resume([ps.ProducerRecord(self.topic, context.source_raw_key, context.source_raw_value)])


def enlarged(value: str) -> str:
    return value * 3000 if value.startswith("big") else value


VALUES = ["a", "b", "big 1", "c", "big 2", "d"]


class Application:
    """Copies its input, with some values much larger, to a topic that takes records of 2,000 bytes."""

    def __init__(self, broker: str, name: Callable[[str], str], state_dir: Path, guarantee: str) -> None:
        self.id, self.input, self.output, self.letters = map(name, ("app", "in", "out", "letters"))
        entries = {
            "application.id": self.id,
            "bootstrap.servers": broker,
            "state.dir": state_dir,
            "commit.interval.ms": 200,
            "processing.guarantee": guarantee,
            "production.exception.handler": Letters(self.letters),
        }
        self.config = StreamsConfig.of(entries)
        self.clients = ConfluentClients.of(self.config)
        self.admin = self.clients.admin()
        small = NewTopic(self.output, 1, config={"max.message.bytes": "2000"})
        self.admin.create_topics([NewTopic(self.input, 1), small, NewTopic(self.letters, 1)])
        member: Any = self.clients.group_member("member")
        self._metadata: bytes = member._client.consumer_group_metadata()  # of no generation: an empty group allows it
        member.close()

    def started(self) -> StreamLoop:
        builder = ps.StreamsBuilder()
        stream = builder.stream(self.input, ps.Consumed.with_(STRING, STRING)).map_values(enlarged)
        stream.to(self.output, ps.Produced.with_(STRING, STRING))
        spec, lease = ApplicationSpec(builder.build(), self.config), Lease.unlimited(time.monotonic)
        loop = StreamLoop(spec, "stream/1", self.clients, self._commit, process_id="p", lease=lease)
        threading.Thread(target=loop.run, daemon=True).start()
        loop.assign(1, {TASK: frozenset({TopicPartition(self.input, 0)})}).result(60)
        return loop

    def _commit(self, request: CommitRequest) -> Future[CommitAnswer]:
        """Answers as a coordinator that is no member of the group."""
        answer: Future[CommitAnswer] = Future()
        if request.offsets:
            self.admin.commit(self.id, {tp: CommittedOffset(*position) for tp, position in request.offsets.items()})
        answer.set_result(CommitAnswer(True, group_metadata=self._metadata))
        return answer

    def write(self) -> None:
        with closing(self.clients.producer()) as producer:
            for number, value in enumerate(VALUES):
                producer.send(self.input, b"k", value.encode(), 1000 + number)
            assert producer.flush(60)

    def committed(self) -> int:
        """The committed offset; 0 if there is none, or no answer now."""
        with suppress(BrokerUnreachableError):
            if (found := self.admin.committed(self.id).get(TopicPartition(self.input, 0))) is not None:
                return found.offset
        return 0


@pytest.mark.submission
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_each_refused_result_has_a_letter_and_the_others_are_written(
    guarantee: str, broker: str, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    app = Application(broker, topic_name, tmp_path, guarantee)
    app.write()
    loop = app.started()

    def done() -> bool:
        assert not loop.finished.done(), loop.finished.result()
        return app.committed() == len(VALUES)

    eventually(done, "all is committed")
    loop.stop().result(60)
    if guarantee == "exactly_once_v2":
        until_stable(app.clients, [TopicPartition(topic, 0) for topic in (app.output, app.letters)])
    written, letters = (read(app.clients, topic) for topic in (app.output, app.letters))
    if guarantee == "exactly_once_v2":
        assert (written, letters) == (["a", "b", "c", "d"], ["big 1", "big 2"])
    else:
        assert (set(written), set(letters)) == ({"a", "b", "c", "d"}, {"big 1", "big 2"})
        assert written[-1] == "d"


def read(clients: ConfluentClients, topic: str) -> list[str]:
    """Returns the values of the committed records of ``topic``."""
    tp = TopicPartition(topic, 0)
    consumer = clients.consumer()
    consumer.assign({tp: BEGINNING})
    end = consumer.fetch_end_offsets([tp])[tp]
    values: list[str] = []

    def all_read() -> bool:
        for batch in consumer.poll(10_000, 0.1):
            values.extend((value or b"").decode() for value in batch.values)
        return consumer.position(tp) >= end

    eventually(all_read, f"{topic} is read")
    consumer.close()
    return values
