"""A run that is killed at any of its requests to object storage: the next run leaves each record once.

These play the driver and the writers of files in this process. ``test_killed_processes.py`` kills Spark's.
"""

from __future__ import annotations

import random
from functools import cache

import pytest

from penstock.common.errors import ArchiveError, MissingTopicError, ObjectStoreError
from penstock.common.topics import NewTopic
from penstock.pipeline.archive.topic_log import ArchiveTakenOverError
from penstock.pipeline.archive.verification import verify
from tests.pipeline.archive.without_spark import TOPICS, Cluster, Deadly, KilledError
from tests.tiers import sampled


@cache
def requests_of_a_run() -> int:
    cluster = Cluster()
    cluster.send(6)
    counting = Deadly(cluster.objects)
    cluster.archive(counting)
    return counting.requests


def check_whole(cluster: Cluster) -> None:
    assert cluster.tables() == cluster.expected()
    for topic in TOPICS:
        archived = cluster.archived(topic)
        assert [report.problems for report in verify(cluster.objects, archived, None)] == [[]] * len(
            archived.partitions
        )


@pytest.mark.parametrize("done", [False, True], ids=["before it is done", "after it is done"])
@pytest.mark.parametrize("first", sampled(range(1, 9), 8))
def test_a_run_killed_at_any_request_is_continued_by_the_next(done: bool, first: int) -> None:
    for at in range(first, requests_of_a_run() + 1, 8):
        cluster = Cluster()
        cluster.send(6)
        with pytest.raises(KilledError):
            cluster.archive(Deadly(cluster.objects, at, done))
        cluster.send(2)
        cluster.archive(cluster.objects)
        check_whole(cluster)
        named = {
            name
            for topic in TOPICS
            for name in (
                *(file.name for file in cluster.archived(topic).all_files()),
                *cluster.archived(topic).replaced,
            )
        }
        files = {info.name for info in cluster.listing() if info.name.endswith(".parquet")}
        assert files == named, "a file that no manifest names is left"


@pytest.mark.parametrize("seed", sampled(range(20), 5))
def test_runs_that_are_killed_again_and_again_leave_each_record_once(seed: int) -> None:
    chance = random.Random(seed)
    cluster = Cluster()
    for _ in range(5):
        cluster.send(chance.randrange(1, 8))
        objects = Deadly(cluster.objects, chance.randrange(1, requests_of_a_run()), chance.random() < 0.5)
        try:
            cluster.archive(objects, step=chance.randrange(1, 20))
        except KilledError:
            continue
        check_whole(cluster)
    cluster.archive(cluster.objects)
    check_whole(cluster)


def test_storage_that_goes_away_ends_the_run_and_the_next_run_continues() -> None:
    for at in range(3, requests_of_a_run(), 5):
        cluster = Cluster()
        cluster.send(6)
        with pytest.raises(ObjectStoreError, match="503 Service Unavailable"):
            cluster.archive(Deadly(cluster.objects, at, gone=True))
        cluster.archive(cluster.objects)
        check_whole(cluster)


def test_storage_without_conditional_writes_is_refused_before_any_work() -> None:
    cluster = Cluster()
    cluster.send(3)
    cluster.objects.create = cluster.objects.put  # type: ignore[method-assign]
    with pytest.raises(ObjectStoreError, match=r"overwrites an object although .* Use storage with conditional writes"):
        cluster.archive(cluster.objects)
    assert cluster.listing() == []


def test_a_topic_that_does_not_exist_is_named_before_any_work() -> None:
    cluster = Cluster()
    cluster.clients.admin().delete_topics(["others"])
    cluster.clients.admin().create_topics([NewTopic("other-ones", 1)])
    named = r"topic 'others' does not exist \(similar: other-ones\): create it, or leave it out"
    with pytest.raises(MissingTopicError, match=named):
        cluster.archive(cluster.objects)
    assert cluster.listing() == []


def test_a_topic_that_is_created_again_in_the_middle_of_a_run_is_not_mixed_with_the_one_before() -> None:
    cluster = Cluster()
    cluster.send(6)
    create, again = cluster.objects.create, list[bool]()

    def created_again(name: str, content: bytes) -> None:
        create(name, content)
        if name.startswith("others/0/") and not again:
            again.append(True)
            cluster.clients.admin().delete_topics(["others"])
            cluster.clients.admin().create_topics([NewTopic("others", 1)])

    cluster.objects.create = created_again  # type: ignore[method-assign]
    with pytest.raises(ArchiveError, match=r"topic others was deleted while it was archived\. If it was created again"):
        cluster.archive(cluster.objects)
    assert cluster.archived("others").all_files() == []
    cluster.send(2)
    cluster.archive(cluster.objects)
    assert cluster.archived("others").folder == "others~2"
    check_whole(cluster)


def test_a_continuous_run_archives_what_comes_until_it_is_interrupted() -> None:
    cluster, waits = Cluster(), list[float]()
    cluster.send(3)

    def wait(seconds: float) -> None:
        check_whole(cluster)
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt
        if len(waits) == 1:
            cluster.send(2)

    with pytest.raises(KeyboardInterrupt):
        cluster.archive(cluster.objects, every_s=30.0, wait=wait)
    check_whole(cluster)
    assert all(0 < seconds <= 30 for seconds in waits)


def test_each_commit_is_reported() -> None:
    cluster = Cluster()
    cluster.send(6)
    batches = cluster.archive(cluster.objects)
    assert sum(batch.records for batch in batches) == sum(len(table) for table in cluster.expected().values())
    assert len(batches) > 1
    assert cluster.archive(cluster.objects) == []


def test_a_run_beside_which_another_begins_ends_and_the_other_has_each_record_once() -> None:
    cluster = Cluster()
    cluster.send(6)
    create = cluster.objects.create
    begun: list[bool] = []

    def overtaken(name: str, content: bytes) -> None:
        if name.endswith(".parquet") and not begun:
            begun.append(True)
            cluster.archive(cluster.objects)
        create(name, content)

    cluster.objects.create = overtaken  # type: ignore[method-assign]
    with pytest.raises(ArchiveTakenOverError, match="another run has begun to archive lines"):
        cluster.archive(cluster.objects)
    cluster.objects.create = create  # type: ignore[method-assign]
    cluster.archive(cluster.objects)
    check_whole(cluster)


def test_two_clusters_with_a_topic_of_the_same_name_are_told_apart() -> None:
    one, other = Cluster(), Cluster()
    other.clients.admin().delete_topics(TOPICS)
    other.__post_init__()  # topics of other ids
    other.objects = one.objects
    one.send(3)
    other.send(4)
    one.archive(one.objects)
    other.archive(one.objects)
    with pytest.raises(ArchiveError, match=r"two Kafka clusters are archived to one place. Give each a URL of its own"):
        one.archive(one.objects)
    assert other.tables() == other.expected()
