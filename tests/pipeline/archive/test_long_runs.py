"""An archive that is kept for years: damage of old files, runs of months, partitions that begin late."""

from __future__ import annotations

import pytest

from penstock.common.errors import ArchiveError
from penstock.common.ids import TopicPartition
from penstock.pipeline.archive import cleaning, run
from penstock.pipeline.archive.compaction import WORTHWHILE
from penstock.testing.fake_broker import FakeLog
from tests.pipeline.archive.without_spark import Cluster, KilledError

EMPTY = TopicPartition("lines", 0)


def test_a_damaged_file_beside_small_ones_does_not_end_the_archiving_of_new_records() -> None:
    cluster = Cluster()
    cluster.send(2)
    cluster.archive(cluster.objects)
    damaged = cluster.archived("lines").all_files()[0].name
    content = cluster.objects.read(damaged)
    cluster.objects.put(damaged, b"damaged")
    for _ in range(WORTHWHILE):
        cluster.send(2)
        cluster.archive(cluster.objects)
    assert damaged in {file.name for file in cluster.archived("lines").all_files()}
    cluster.objects.put(damaged, content)
    cluster.send(2)
    cluster.archive(cluster.objects)
    assert damaged not in {file.name for file in cluster.archived("lines").all_files()}
    assert cluster.tables() == cluster.expected()


def test_a_continuous_run_deletes_what_compaction_has_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "KEPT_MS", 0)
    monkeypatch.setattr(run, "KEPT_MS", 0)
    cluster = Cluster()
    rounds = 0

    def wait(seconds: float) -> None:
        nonlocal rounds
        rounds += 1
        cluster.send(2)
        if rounds > 2 * WORTHWHILE:
            raise KilledError

    cluster.send(2)
    with pytest.raises(KilledError):
        cluster.archive(cluster.objects, wait=wait, every_s=1.0)
    archived = cluster.archived("lines")
    assert archived.replaced
    there = {info.name for info in cluster.listing()}
    assert not there & archived.replaced.keys()
    assert {file.name for file in archived.all_files()} <= there


@pytest.mark.parametrize("seen", [True, False], ids=["was empty", "is new"])
def test_records_of_a_partition_without_archived_records_are_not_lost_without_a_word(seen: bool) -> None:
    cluster = Cluster()
    at = EMPTY if seen else TopicPartition("lines", 2)
    cluster.archive(cluster.objects)
    if not seen:
        with cluster.clients.broker.changed:
            cluster.clients.broker._topics["lines"].append(FakeLog())
    producer = cluster.clients.producer()
    for number in range(5):
        producer.send("lines", None, b"%d" % number, number, None, at.partition)
    assert producer.flush(1)
    cluster.clients.admin().delete_records({at: 3})
    with pytest.raises(ArchiveError, match=rf"lines-{at.partition} offsets 0 to 2\. .* --accept-loss"):
        cluster.archive(cluster.objects)
    cluster.archive(cluster.objects, accept_loss=True)
    archived = cluster.archived("lines")
    assert [(it.partition, it.begin, it.end) for it in archived.lost] == [(at.partition, 0, 3)]
    assert [file.rows for file in archived.all_files()] == [2]
