"""The stream loop in its thread on a real broker, and the actor on a real Ray."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.actors.commit_messages import CommitAnswer, CommitRequest
from penstock.actors.loop import stream_loop
from penstock.actors.loop.lease import Lease, QuestionId
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.orders import Assign
from penstock.actors.spec import ApplicationSpec
from penstock.actors.status import ActorStatus
from penstock.actors.store_queries import StoreAnswer, StoreQuery
from penstock.cluster.coordinator_shell.membership import FINAL, Membership
from penstock.common.config import StreamsConfig
from penstock.common.errors import BrokerUnreachableError, StreamsError
from penstock.common.ids import CommittedOffset, TaskId, TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import BEGINNING
from penstock.kafka.local_broker.broker import LocalBroker
from penstock.state.queries import KeyQuery
from tests.actors.rig import nothing_done
from tests.own_ray import own_or_running_ray
from tests.waiting import PATIENCE_S, eventually

STRING, LONG = ps.Serdes.string(), ps.Serdes.long()
TASK = TaskId(0, 0)


class Application:
    """A counting application with topics of its own on a real broker."""

    def __init__(self, broker: str, name: Callable[[str], str], state_dir: Path, fail_on: str | None = None) -> None:
        self.id, self.input, self.output = name("app"), name("in"), name("out")
        self.config = StreamsConfig.of(
            {"application.id": self.id, "bootstrap.servers": broker, "state.dir": state_dir, "commit.interval.ms": 200}
        )
        self.clients = ConfluentClients.of(self.config)
        self.admin = self.clients.admin()
        changelog = NewTopic(f"{self.id}-counts-changelog", 1, config={"cleanup.policy": "compact"})
        self.admin.create_topics([NewTopic(self.input, 1), NewTopic(self.output, 1), changelog])

        def check(value: str) -> str:
            if value == fail_on:
                raise ValueError(f"cannot bear {value}")
            return value

        builder = ps.StreamsBuilder()
        stream = builder.stream(self.input, ps.Consumed.with_(STRING, STRING)).map_values(check)
        counts = stream.group_by_key().count(ps.Materialized.as_("counts"))
        counts.to_stream().to(self.output, ps.Produced.with_(STRING, LONG))
        self.spec = ApplicationSpec(builder.build(), self.config)

    def write(self, *keys: str, value: str = "v") -> None:
        producer = self.clients.producer()
        for number, key in enumerate(keys):
            producer.send(self.input, key.encode(), value.encode(), 1000 + number)
        assert producer.flush(60)
        producer.close()

    def committed(self) -> int:
        found = self.admin.committed(self.id).get(TopicPartition(self.input, 0))
        return 0 if found is None else found.offset

    def last_counts(self) -> dict[bytes | None, int]:
        """The last count per key in the output topic."""
        tp = TopicPartition(self.output, 0)
        consumer = self.clients.consumer()
        consumer.assign({tp: BEGINNING})
        end = consumer.fetch_end_offsets([tp])[tp]
        found: dict[bytes | None, int] = {}

        def all_read() -> bool:
            for batch in consumer.poll(10_000, 0.1):
                counts = [int.from_bytes(value or b"", "big") for value in batch.values]
                found.update(zip(batch.keys, counts, strict=True))
            return consumer.position(tp) >= end

        eventually(all_read, "the output is read")
        consumer.close()
        return found

    def commit(self, request: CommitRequest) -> Future[CommitAnswer]:
        """A coordinator that is no member: it commits from outside of the group, as an empty group allows."""
        self.admin.commit(self.id, {tp: CommittedOffset(*position) for tp, position in request.offsets.items()})
        answer: Future[CommitAnswer] = Future()
        answer.set_result(CommitAnswer(True))
        return answer

    def started(self, committer: Callable[[CommitRequest], Future[CommitAnswer]] | None = None) -> StreamLoop:
        loop = StreamLoop(
            self.spec, "stream/1", self.clients, committer or self.commit, lease=Lease.unlimited(time.monotonic)
        )
        threading.Thread(target=loop.run, daemon=True).start()
        loop.assign(1, {TASK: frozenset({TopicPartition(self.input, TASK.partition)})}).result(60)
        return loop


class StaticMember:
    """Commits as the coordinator does: as the group's member, again and again while the broker is away."""

    def __init__(self, app: Application) -> None:
        self.failed: Future[StreamsError] = Future()
        member = partial(app.clients.group_member, "member")
        self._membership = Membership(member, [app.input], lambda *_: None, nothing_done, self.failed.set_result)

    def __enter__(self) -> StaticMember:
        return self

    def __exit__(self, *exception: object) -> None:
        self._membership.close()

    def commit(self, request: CommitRequest) -> Future[CommitAnswer]:
        offsets = {tp: CommittedOffset(*position) for tp, position in request.offsets.items()}
        answer: Future[CommitAnswer] = Future()

        def ask() -> None:
            self._membership.commit(offsets).add_done_callback(answered)

        def answered(done: Future[None]) -> None:
            error = done.exception()
            if error is None:
                answer.set_result(CommitAnswer(True))
            elif isinstance(error, FINAL):
                answer.set_exception(error)
            else:
                threading.Timer(0.2, ask).start()

        ask()
        return answer


def key_query(key: str) -> StoreQuery:
    return StoreQuery(TASK, "counts", KeyQuery(key.encode()))


def test_counts_survive_a_restart_and_a_lost_disk(
    broker: str, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    app = Application(broker, topic_name, tmp_path / "state")
    words = ["a", "b", "c", "a"] * 1000
    app.write(*words)
    loop = app.started()
    eventually(lambda: app.committed() == 4000, "everything is committed")
    (answer,) = loop.query([key_query("a")]).result(60)
    assert answer.rows == ((b"a", 2000, 1000 + 3999),)
    loop.stop().result(60)
    app.write("a")
    loop = app.started()
    eventually(lambda: app.committed() == 4001, "the rest is committed")
    loop.stop().result(60)
    (tmp_path / "state").rename(tmp_path / "lost")
    app.write("a")
    loop = app.started()
    eventually(lambda: app.committed() == 4002, "the last one is committed")
    loop.stop().result(60)
    assert loop.finished.result(60) is None
    assert app.last_counts() == {b"a": 2002, b"b": 1000, b"c": 1000}


@pytest.mark.long
def test_a_broker_that_is_stopped_and_started_under_load_costs_no_record(
    topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    each, total = 100_000, 300_000
    broker = LocalBroker(tmp_path / "broker", port=0)
    with broker as status:
        app = Application(status.bootstrap_servers, topic_name, tmp_path / "state")
        with StaticMember(app) as static_member:
            loop = app.started(static_member.commit)
            for written in (0, each):

                def works(written: int = written) -> bool:
                    return loop.finished.done() or safely(app.committed, 0) > written

                app.write(*(f"key-{number % 5000}" for number in range(each)))
                eventually(works, "records are committed")
                broker.stop()
                assert not loop.finished.done(), loop.finished.result()
                broker.start()
            app.write(*(f"key-{number % 5000}" for number in range(each)))
            eventually(lambda: loop.finished.done() or safely(app.committed, -1) == total, "all is committed")
            assert not loop.finished.done(), loop.finished.result()
            assert sum(app.last_counts().values()) == total
            loop.stop().result(60)
            assert not static_member.failed.done()


def safely(ask: Callable[[], int], otherwise: int) -> int:
    """The answer; ``otherwise`` while the broker is only coming up."""
    try:
        return ask()
    except BrokerUnreachableError:
        return otherwise


def test_a_query_ends_the_wait_of_an_idle_loop(
    broker: str, topic_name: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Application(broker, topic_name, tmp_path)
    app.write("a")
    loop = app.started()
    eventually(lambda: bool(loop.query([key_query("a")]).result(60)[0].rows), "the record is processed")
    with monkeypatch.context() as patched:
        patched.setattr(stream_loop, "IDLE_WAIT_S", 1_000_000.0)  # from now on, each wait is twice the one before
        for _ in range(200):
            assert loop.query([key_query("a")]).result(PATIENCE_S)[0].rows[0][1] == 1
    loop.stop().result(PATIENCE_S)


@pytest.fixture
def ray_cluster() -> Iterator[None]:
    yield from own_or_running_ray()


def test_the_actor_on_ray_processes_answers_commits_and_reports_its_error(
    broker: str, topic_name: Callable[[str], str], tmp_path: Path, ray_cluster: None
) -> None:
    import ray
    from ray import cloudpickle

    from penstock.actors.process.stream_actor import StreamActor

    app = Application(broker, topic_name, tmp_path, fail_on="bad")

    class Coordinator:
        """Commits from outside of the group; its first answer is lost with its process."""

        def __init__(self, clients: ConfluentClients, lives: Path) -> None:
            self._clients = clients
            self._lives = lives

        async def commit(self, request: CommitRequest) -> CommitAnswer:
            offsets = {tp: CommittedOffset(*position) for tp, position in request.offsets.items()}
            self._clients.admin().commit(self._clients.group, offsets)
            if not self._lives.exists():
                self._lives.touch()
                import os

                os._exit(1)
            return CommitAnswer(True)

    remote: Any = ray.remote(Coordinator).options(num_cpus=0, max_restarts=-1)
    coordinator = remote.remote(app.clients, tmp_path / "lives")
    pickled = cloudpickle.dumps(app.spec)  # type: ignore[no-untyped-call]  # untyped in Ray
    actor: Any = ray.remote(StreamActor).options(num_cpus=1).remote("app", "stream/1", pickled)
    ray.get(actor.start.remote(coordinator, 1), timeout=PATIENCE_S)
    waiting = actor.wait.remote()
    ray.get(actor.tell.remote(Assign(1, {TASK: frozenset({TopicPartition(app.input, 0)})}, {})), timeout=PATIENCE_S)
    app.write("a", "b", "a")

    def status() -> ActorStatus:
        found: ActorStatus = ray.get(actor.status.remote(QuestionId(1, 1, 0)), timeout=PATIENCE_S)
        return found

    eventually(lambda: status().commits > 0, "the commit is confirmed although the coordinator died meanwhile")
    eventually(lambda: app.committed() == 3, "all is committed: the first commit may have had a part of it")
    answers: list[StoreAnswer] = ray.get(actor.query.remote([key_query("a"), key_query("none")]), timeout=PATIENCE_S)
    assert [answer.rows for answer in answers] == [((b"a", 2, 1002),), ()]
    assert status().tasks[0].records_processed == 3
    app.write("a", value="bad")
    text = ray.get(waiting, timeout=PATIENCE_S).error
    assert "ValueError: cannot bear bad" in text
    assert f"topic {app.input}, partition 0, offset 3" in text
    assert app.committed() == 3
    assert status().error == text
