"""Applications on a real Ray and a real Kafka."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import ray

import penstock as ps
from penstock.cluster.ray_cluster.named_actors import find_coordinator
from penstock.cluster.status import ApplicationState
from penstock.common.errors import ApplicationStateError, InternalTopicError, UnknownStateStoreError
from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from tests.cluster.conftest import STRING, WordCount
from tests.cluster.settled import until_settled
from tests.processes import signal_ray_process
from tests.waiting import PATIENCE_S, eventually

MakeWordCount = Callable[[], WordCount]
LINES = ["the quick brown fox", "jumps over the lazy dog", "the end"] * 20


def test_word_count_counts_and_answers_queries(word_count: MakeWordCount) -> None:
    it = word_count()
    it.send(LINES)
    app = it.app()
    app.start()
    until_settled(app)
    eventually(it.complete, "all counts written")
    store = app.store("counts")
    assert store.get("the") == it.sent["the"]
    assert store.get("nobody") is None
    assert dict(store.all()) == dict(it.sent)
    assert [key for key, _ in store.range("b", "f")] == sorted(w for w in it.sent if "b" <= w <= "f")
    # A key that was committed again, or updated since, may count again.
    assert len(it.sent) <= store.approximate_num_entries() <= it.changes() + len(it.sent)
    with pytest.raises(UnknownStateStoreError, match="no state store 'count'; its stores: counts"):
        app.store("count").get("the")
    assert sorted(map(str, app.status().placement)) == ["0_0", "0_1", "1_0", "1_1"]
    eventually(lambda: sum(sum(t.lags.values()) for a in app.status().actors for t in a.tasks) == 0, "no lag")
    assert app.close()
    assert app.state() is ApplicationState.NOT_RUNNING
    assert find_coordinator(it.application_id) is None


@pytest.mark.long
def test_a_with_block_runs_an_application_from_start_to_commit(word_count: MakeWordCount) -> None:
    it = word_count()
    it.send(LINES)
    with it.app() as app:
        until_settled(app)
        eventually(it.complete, "all counts written")
        found = {name: value for name, value in app.metrics().items() if name.name == "process-total"}
        assert {name.group for name in found} == {f"stream-{it}-metrics" for it in ("thread", "task", "processor-node")}
        processed = {name: value for name, value in found.items() if name.group == "stream-task-metrics"}
        assert {name.tags["task-id"] for name in processed} == {"0_0", "0_1", "1_0", "1_1"}
    assert app.state() is ApplicationState.NOT_RUNNING
    assert find_coordinator(it.application_id) is None
    assert it.committed() == len(LINES)


@pytest.mark.submission
def test_a_stopped_application_continues_where_it_was_without_counting_twice(word_count: MakeWordCount) -> None:
    it = word_count()
    for _ in range(2):
        it.send(LINES)
        app = it.app()
        app.start()
        app.wait_until_running(PATIENCE_S)
        eventually(it.complete, "all counts written")
        assert app.close()


class RestoresInFile(ps.StateRestoreListener):
    """Writes what it hears to a file: the actor that restores has a copy of it, and is another process."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def on_restore_start(
        self, partition: TopicPartition, store_name: str, starting_offset: int, ending_offset: int
    ) -> None:
        self._write("start", store_name, starting_offset)

    def on_batch_restored(
        self, partition: TopicPartition, store_name: str, batch_end_offset: int, num_restored: int
    ) -> None:
        """Does nothing: one file for all batches has nothing to check."""

    def on_restore_end(self, partition: TopicPartition, store_name: str, total_restored: int) -> None:
        self._write("end", store_name, total_restored)

    def _write(self, *what: object) -> None:
        with self._file.open("a") as file:
            print(*what, file=file)


@pytest.mark.long
def test_a_restore_listener_is_called_where_stores_are_restored(word_count: MakeWordCount, tmp_path: Path) -> None:
    it = word_count()
    it.send(LINES)
    heard = tmp_path / "heard"
    for listener in (None, RestoresInFile(heard)):
        app = it.app(tasks_per_actor=4)  # on one actor: a task that moved would restore again
        app.set_global_state_restore_listener(listener)
        app.start()
        app.wait_until_running(PATIENCE_S)
        eventually(it.complete, "all counts written")
        restored = sum(task.restore_total for task in until_settled(app).tasks)
        assert app.close()
        shutil.rmtree(it.state_dir / it.application_id)  # as on another node
    message = [line.split() for line in heard.read_text().splitlines()]
    assert {tuple(line[:2]) for line in message} == {("start", "counts"), ("end", "counts")}
    ends = [int(number) for what, _, number in message if what == "end"]
    assert sum(ends) == restored > 0


def test_a_running_application_cannot_be_started_again(word_count: MakeWordCount) -> None:
    it = word_count()
    app = it.app()
    app.start()
    with pytest.raises(ApplicationStateError, match=r"already running .*penstock stop") as refused:
        it.app().start()
    assert "another topology" not in str(refused.value)
    builder = ps.StreamsBuilder()
    builder.stream(it.lines, ps.Consumed.with_(STRING, STRING)).filter(lambda *_: True).to(it.counts_topic)
    config = {"application.id": it.application_id, "bootstrap.servers": it.broker, "application.server": ""}
    other = ps.KafkaStreams(builder.build(), config)
    with pytest.raises(ApplicationStateError, match=r"(?s)already running .*another topology.*\+ .*KSTREAM-FILTER"):
        other.start()
    assert app.close()
    assert app.close()


@pytest.mark.long
def test_a_repartition_topic_is_emptied_of_what_is_committed(word_count: MakeWordCount) -> None:
    it = word_count()
    it.send(LINES)
    app = it.app(repartition_purge_interval_ms=300)
    app.start()
    app.wait_until_running(PATIENCE_S)
    partitions = [TopicPartition(f"{it.application_id}-counts-repartition", number) for number in range(2)]
    consumer = it.clients.consumer()

    def emptied() -> bool:
        ends = consumer.fetch_end_offsets(partitions)
        return it.complete() and consumer.fetch_beginning_offsets(partitions) == ends

    eventually(emptied, "beginning is end")
    consumer.close()
    assert app.close()


def test_an_internal_topic_of_the_wrong_size_is_refused_before_anything_starts(word_count: MakeWordCount) -> None:
    it = word_count()
    it.admin.create_topics([NewTopic(f"{it.application_id}-counts-changelog", 5)])
    with pytest.raises(InternalTopicError, match="has 5 partitions, but the topology needs 2"):
        it.app().start()
    assert find_coordinator(it.application_id) is None


@pytest.mark.long
def test_a_killed_stream_actor_is_replaced_and_its_successor_catches_up(word_count: MakeWordCount) -> None:
    it = word_count()
    it.send(LINES)
    app = it.app()
    app.start()
    app.wait_until_running(PATIENCE_S)
    eventually(it.complete, "all counts written")
    eventually(lambda: it.committed() == len(LINES), "all lines committed")
    victim = next(actor for actor in app.status().actors if actor.tasks)
    signal_ray_process(victim.pid)
    it.send(LINES)
    eventually(lambda: victim.actor_id not in app.status().placement.values(), "the dead actor has no tasks")
    app.wait_until_running(PATIENCE_S)
    eventually(lambda: set(it.written()) == set(it.sent), "all words")
    # At least once: what the victim had not committed may be counted twice, but nothing may be lost.
    eventually(lambda: all(it.written()[word] >= count for word, count in it.sent.items()), "nothing lost")
    assert app.close()


@pytest.mark.submission
def test_a_killed_coordinator_comes_back_and_finds_its_actors(word_count: MakeWordCount) -> None:
    it = word_count()
    it.send(LINES)
    app = it.app()
    app.start()
    until_settled(app)
    eventually(it.complete, "all counts written")
    before = {actor.actor_id: actor.pid for actor in app.status().actors}
    coordinator = find_coordinator(it.application_id)
    assert coordinator is not None
    signal_ray_process(ray.get(coordinator.process.remote()).pid)
    it.send(LINES)
    app.wait_until_running(PATIENCE_S)
    eventually(it.complete, "all counts written, none twice")
    assert {actor.actor_id: actor.pid for actor in until_settled(app).actors} == before
    assert app.close()


@pytest.mark.long
def test_an_error_in_a_user_function_ends_the_application_with_its_place(word_count: MakeWordCount) -> None:
    it = word_count()
    app = it.app()
    states: list[tuple[str, str]] = []
    app.set_state_listener(lambda new, old: states.append((new.value, old.value)))
    app.start()
    app.wait_until_running(PATIENCE_S)
    view = app.store("counts")
    producer = it.clients.producer()
    producer.send(it.lines, None, b"\xff\xfe", 1, partition=1)
    producer.flush(60)
    producer.close()
    eventually(lambda: app.state() is ApplicationState.ERROR, "state ERROR")
    error = app.status().error or ""
    assert "DeserializationError" in error
    assert f"topic {it.lines}, partition 1, offset 0" in error
    for call in (app.wait_until_running, lambda: app.store("counts"), lambda: view.get("the")):
        with pytest.raises(ApplicationStateError, match=r"is in state ERROR: .*DeserializationError"):
            call()
    answer = httpx.get(
        f"{app.status().http_address}/v1/applications/{it.application_id}/stores/counts/keys/the", timeout=PATIENCE_S
    )
    assert answer.status_code == 503
    assert "ERROR: " in answer.json()["detail"]
    assert app.close()
    assert app.state() is ApplicationState.ERROR
    assert states[0][1] == "CREATED"
    assert states[-1][0] == "ERROR"
    assert [new for new, _ in states[:-1]] == [old for _, old in states[1:]], "each change begins where the last ended"
    with pytest.raises(ApplicationStateError, match="is closed, and with it this view"):
        view.get("the")
