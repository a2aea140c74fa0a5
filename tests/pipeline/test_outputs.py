"""Backfills that change nothing in Kafka: files, nothing, and a dry run that compares."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.common.errors import ApplicationStateError, ConfigError
from penstock.common.ids import TopicPartition
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.backfill.backfill import NONE, BackfillOptions, BackfillReport, backfill
from penstock.pipeline.backfill.bounds import bounds_of
from penstock.pipeline.backfill.compare import Comparison, in_words
from tests.cluster.conftest import LONG, WordCount

LINES = ["the quick brown fox", "jumps over the lazy dog", "the end"] * 20


@pytest.fixture
def word_count(broker: str, topic_name: Callable[[str], str], tmp_path: Path) -> WordCount:
    it = WordCount(broker, topic_name("wc"), tmp_path / "state")
    it.send(LINES)
    return it


def run(it: WordCount, options: BackfillOptions | None = None) -> BackfillReport:
    app = it.app()
    return backfill(app.topology, app.config, "local[2]", options=options)


def dry(begin: str | None = None, until: str | None = None) -> BackfillOptions:
    return BackfillOptions(bounds_of(begin, until, recompute=True))


def rows(folder: Path) -> list[dict[str, object]]:
    return [row for file in sorted(folder.glob("*.parquet")) for row in pq.read_table(file).to_pylist()]


@pytest.mark.usefixtures("shared_spark")
def test_files_have_results_and_state_and_the_application_is_left_as_it_is(
    word_count: WordCount, tmp_path: Path
) -> None:
    before = word_count.admin.topics().keys() - {"__consumer_offsets"}
    place = tmp_path / "place"
    options = BackfillOptions(output=ObjectLocation(str(place)))
    report = run(word_count, options)
    changelog = f"{word_count.application_id}-counts-changelog"
    state = {row["key"].decode(): LONG.deserialize(row["value"]) for row in rows(place / "state" / changelog)}  # type: ignore[attr-defined, arg-type]
    assert state == dict(word_count.sent)
    results = rows(place / "results" / word_count.counts_topic)
    assert len(results) == report.written[word_count.counts_topic]
    last = {row["key"].decode(): LONG.deserialize(row["value"]) for row in results}  # type: ignore[attr-defined, arg-type]
    assert last == state
    manifest = json.loads((place / "backfill.json").read_text())
    assert [tuple(it) for it in manifest["offsets"] if it[0] == word_count.lines] == [
        (word_count.lines, 0, 30),
        (word_count.lines, 1, 30),
    ]
    assert sum(file["rows"] for file in manifest["state"]) == len(state)
    assert word_count.admin.topics().keys() - {"__consumer_offsets"} == before
    assert word_count.admin.committed(word_count.application_id) == {}
    with pytest.raises(ApplicationStateError, match=r"holds the output of another backfill \(backfill\.json\)"):
        run(word_count, options)


@pytest.mark.long
@pytest.mark.usefixtures("shared_spark")
def test_no_output_counts_what_would_be_written(word_count: WordCount) -> None:
    before = word_count.admin.topics().keys() - {"__consumer_offsets"}
    report = run(word_count, BackfillOptions(output=NONE))
    assert report.changelog_rows == {f"{word_count.application_id}-counts-changelog": len(word_count.sent)}
    assert report.read == {word_count.lines: len(LINES)}
    assert word_count.admin.topics().keys() - {"__consumer_offsets"} == before


@pytest.mark.long
@pytest.mark.usefixtures("shared_spark")
def test_a_dry_run_computes_the_state_again_and_names_what_differs(word_count: WordCount) -> None:
    changelog = f"{word_count.application_id}-counts-changelog"
    (fresh,) = run(word_count, dry()).compared
    assert (fresh.only_computed, fresh.same, fresh.only_there) == (len(word_count.sent), 0, 0)
    run(word_count)
    word_count.send(["later words"])
    (same,) = run(word_count, dry()).compared
    assert (same.same, same.differs) == (len(word_count.sent) - 2, False)
    (later,) = run(word_count, dry(until="latest")).compared
    assert (later.only_computed, later.other_value) == (2, 0)
    producer = word_count.clients.producer()
    producer.send(changelog, b"the", LONG.serialize(7), 1, partition=partition_of(word_count, b"the"))
    producer.send(changelog, b"ghost", LONG.serialize(1), 1, partition=0)
    assert producer.flush(60)
    producer.close()
    committed = word_count.admin.committed(word_count.application_id)
    (wrong,) = run(word_count, dry()).compared
    assert (wrong.other_value, wrong.only_there, wrong.only_computed) == (1, 1, 0)
    text = "\n".join(in_words([wrong], ["versions"]))
    expected = LONG.serialize(Counter(word for line in LINES for word in line.split())["the"])
    assert f"key b'the': {LONG.serialize(7)!r} at 1, computed {expected!r} at" in text
    assert "key b'ghost'" in text
    assert "versions: not compared" in text
    assert word_count.admin.committed(word_count.application_id) == committed


def partition_of(it: WordCount, key: bytes) -> int:
    """Returns the partition of the changelog that has ``key``."""
    partitions = [TopicPartition(f"{it.application_id}-counts-changelog", number) for number in range(2)]
    consumer = it.clients.consumer()
    ends = consumer.fetch_end_offsets(partitions)
    consumer.assign(consumer.fetch_beginning_offsets(partitions))
    found = -1
    while any(consumer.position(each) < end for each, end in ends.items()):
        for batch in consumer.poll(1000, 0.1):
            if key in batch.keys:
                found = batch.partition.partition
    consumer.close()
    return found


def test_a_dry_run_is_not_continued(word_count: WordCount) -> None:
    with pytest.raises(ConfigError, match="give one of --resume and --dry-run"):
        run(word_count, BackfillOptions(bounds_of(None, None, recompute=True), resume=True))


def test_rows_that_may_have_expired_are_no_difference() -> None:
    assert not Comparison("c", same=5, only_there=2, expires=True).differs
    assert Comparison("c", same=5, only_there=2).differs
    (line,) = in_words([Comparison("c", same=5, only_there=2, expires=True)], [])
    assert "2 are only in the changelog, of which some may have expired" in line
