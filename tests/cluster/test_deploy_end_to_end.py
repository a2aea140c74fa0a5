"""A new version takes the place of the one that runs, and one that fails does not, on a real Ray and a real Kafka."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

import penstock as ps
from penstock.api.kafka_streams import KafkaStreams
from penstock.cli.deploy import follow, statuses_of
from penstock.cluster.client.deploying import begin_rollout, running_version
from penstock.cluster.rollout import RolloutPhase
from tests.cluster.conftest import LONG, STRING, WordCount
from tests.cluster.settled import until_settled
from tests.waiting import PATIENCE_S, eventually

LINES = ["a b", "b c", "c d", "d a"] * 25
SETTINGS = {"processing_guarantee": "exactly_once_v2", "tasks_per_actor": 2}


def second_version(it: WordCount, split: Callable[[str], list[str]]) -> KafkaStreams:
    """The word count, with another function and another output topic."""
    builder = ps.StreamsBuilder()
    counts = (
        builder.stream(it.lines, ps.Consumed.with_(STRING, STRING))
        .flat_map_values(split)
        .group_by(lambda _, word: word, ps.Grouped.with_(STRING, STRING))
        .count(ps.Materialized.as_("counts"))
        .to_stream()
    )
    counts.to(it.counts_topic, ps.Produced.with_(STRING, LONG))
    counts.filter(lambda word, _: word == "new").to(it.counts_topic, ps.Produced.with_(STRING, LONG))
    return KafkaStreams(builder.build(), it.app(**SETTINGS).config.entries())


@contextmanager
def asked_all_the_time(address: str) -> Iterator[Counter[int]]:
    """Counts the statuses of the HTTP API's answers to requests without a pause."""
    seen, stop = Counter[int](), threading.Event()

    def ask() -> None:
        with httpx.Client(timeout=PATIENCE_S) as client:
            while not stop.is_set():
                seen[client.get(address).status_code] += 1

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield seen
    finally:
        stop.set()
        asking.join()


@contextmanager
def sent_all_the_time(it: WordCount) -> Iterator[None]:
    """Lines come as long as the block lasts."""
    stop = threading.Event()

    def send() -> None:
        while not stop.is_set():
            it.send(LINES)

    sending = threading.Thread(target=send)
    sending.start()
    try:
        yield
    finally:
        stop.set()
        sending.join()


@pytest.mark.submission
def test_a_new_version_takes_over_during_input_and_each_count_is_exact(
    word_count: Callable[[], WordCount], capsys: pytest.CaptureFixture[str]
) -> None:
    it = word_count()
    it.send(LINES)
    app = it.app(**SETTINGS)
    app.start()
    until_settled(app)
    eventually(it.complete, "the counts of the first version")
    before = {actor.actor_id for actor in app.status().actors}
    address = f"{app.status().http_address}/v1/applications/{it.application_id}/stores/counts/keys/a"
    with sent_all_the_time(it), asked_all_the_time(address) as seen:
        running = running_version(it.application_id)
        generation = begin_rollout(running, second_version(it, lambda line: [*line.split(), "new"]), watch_s=1)
        follow(it.application_id, generation, statuses_of(running.coordinator))
        eventually(lambda: seen[200] > 0, "it answers")
    assert set(seen) <= {200, 503}, "it answers, or asks to be asked again while the task moves"
    status = until_settled(app)  # the last actor of the first version may still be ending
    assert not before & {actor.actor_id for actor in status.actors}
    assert status.rollout.phase is RolloutPhase.DONE
    assert {actor.generation for actor in status.actors} == {2}
    assert "version 2 runs every task" in capsys.readouterr().out
    it.send(LINES)
    words = {word for line in LINES for word in line.split()}
    eventually(lambda: all(it.written().get(word) == it.sent[word] for word in words), "each count, exact")
    new = "the new program counts what the old one did not"
    eventually(lambda: it.written().get("new", 0) >= len(LINES), new)
    assert app.close()


@pytest.mark.long
def test_a_version_that_fails_is_rolled_back_and_each_count_is_exact(word_count: Callable[[], WordCount]) -> None:
    it = word_count()
    it.send(LINES)
    app = it.app(**SETTINGS)
    app.start()
    until_settled(app)
    eventually(it.complete, "the counts of the first version")

    def fail(line: str) -> list[str]:
        raise ValueError("the new version has a mistake")

    running = running_version(it.application_id)
    generation = begin_rollout(running, second_version(it, fail), watch_s=60)
    refused = pytest.raises(ps.ApplicationStateError, match=r"rolled back(.|\n)*the new version has a mistake")
    with sent_all_the_time(it), refused:
        follow(it.application_id, generation, statuses_of(running.coordinator))
    eventually(it.complete, "the counts, by the first version")
    status = until_settled(app)  # the last actor of the second version may still be ending
    assert {actor.generation for actor in status.actors} == {1}
    assert app.close()
