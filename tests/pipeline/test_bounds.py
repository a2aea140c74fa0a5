"""``--from`` and ``--until``: the texts, the offsets that they mean, and what is refused before any work."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from penstock.common.config import StreamsConfig
from penstock.common.errors import ApplicationStateError, ConfigError
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.offset_ranges import OffsetRange
from penstock.common.topics import NewTopic
from penstock.kafka.internal_topics.creation import ensure_topics
from penstock.pipeline.backfill.bounds import EARLIEST, LATEST, bound_of, bounds_of
from penstock.pipeline.backfill.offsets_now import OffsetLookUp
from penstock.pipeline.backfill.plan import BackfillPlan, plan_backfill
from penstock.pipeline.reading.kafka_history import kafka_ranges
from penstock.testing.fake_broker import FakeRecord
from penstock.testing.fake_clients import FakeClients
from penstock.topology.physical.topic_plan import plan_topics
from tests.pipeline.test_plan import counted_by_value
from tests.pipeline.topologies import STRING

FIRST, SECOND = TopicPartition("lines", 0), TopicPartition("lines", 1)
CHANGELOG = TopicPartition("app-counts-changelog", 0)
AN_HOUR = 3_600_000


class Planned:
    """An application whose topic has ten records in each of two partitions, one an hour from 1970 on."""

    def __init__(self, guarantee: str = "at_least_once") -> None:
        self.clients = FakeClients("app", read_committed=guarantee == "exactly_once_v2")
        self.admin = self.clients.admin()
        serdes = {"default.key.serde": STRING, "default.value.serde": STRING}
        self.config = StreamsConfig.of({"application.id": "app", "processing.guarantee": guarantee, **serdes})
        self.admin.create_topics([NewTopic("lines", 2), NewTopic("out", 1)])
        for hour in range(10):
            for partition in (0, 1):
                self.clients.broker.append("lines", FakeRecord(b"k", b"v", hour * AN_HOUR, None), partition)

    def commit(self, first: int, second: int) -> None:
        shuffled = {TopicPartition("app-counts-repartition", number): CommittedOffset(0) for number in (0, 1)}
        self.admin.commit("app", {FIRST: CommittedOffset(first), SECOND: CommittedOffset(second), **shuffled})

    def plan(self, begin: str | None = None, until: str | None = None) -> BackfillPlan:
        topology = counted_by_value()
        topics = ensure_topics(self.admin, partial(plan_topics, topology, self.config))
        with closing(self.clients.consumer()) as consumer:
            source = OffsetLookUp(partial(kafka_ranges, consumer), self.offsets_at)
            bounds = bounds_of(begin, until)
            return plan_backfill(topology, self.config, topics, self.admin, consumer, source, bounds)

    def ranges(self, begin: str | None = None, until: str | None = None) -> list[tuple[int, int]]:
        records = self.plan(begin, until).stages[0].records
        return [(records[at].begin, records[at].end) for at in (FIRST, SECOND)]

    def offsets_at(self, partitions: Iterable[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        found = {}
        for at in partitions:
            log = self.clients.broker.log(at)
            times = [record.timestamp for record in log.records]
            found[at] = next((log.beginning + n for n, time in enumerate(times) if time >= time_ms), log.end)
        return found


def test_without_bounds_it_is_from_the_committed_offsets_to_the_present_end() -> None:
    planned = Planned()
    planned.commit(4, 7)
    assert planned.ranges() == planned.ranges(None, LATEST) == [(4, 10), (7, 10)]


def test_an_end_is_latest_offsets_or_a_time() -> None:
    planned = Planned()
    assert planned.ranges(until="lines:0:3") == [(0, 3), (0, 10)]
    assert planned.ranges(until="lines:0:3,lines:1:5") == [(0, 3), (0, 5)]
    assert planned.ranges(until="1970-01-01T03:30:00Z") == [(0, 4), (0, 4)]
    assert planned.ranges(until="1970-01-01T04:00:00+01:00") == [(0, 3), (0, 3)]
    assert planned.ranges(until=str(9 * AN_HOUR + 1)) == [(0, 10), (0, 10)]
    assert planned.plan(until="lines:0:3").offsets({})[FIRST].offset == 3


def test_a_beginning_is_earliest_offsets_or_a_time() -> None:
    planned = Planned()
    assert planned.ranges("lines:1:5") == [(0, 10), (5, 10)]
    assert planned.ranges(str(2 * AN_HOUR), "lines:0:3") == [(2, 3), (2, 10)]
    assert planned.ranges(EARLIEST) == [(0, 10), (0, 10)]


def test_offsets_come_from_a_file_of_json(tmp_path: Path) -> None:
    file = tmp_path / "until.json"
    file.write_text('{"lines": {"0": 3, "1": 5}}')
    assert Planned().ranges(until=str(file)) == [(0, 3), (0, 5)]
    for wrong in ("{", "[1]", '{"lines": 3}', '{"lines": {"a": 3}}', '{"lines": {"0": -1}}', "{}"):
        file.write_text(wrong)
        with pytest.raises(ConfigError, match=r"until\.json"):
            bound_of("--until", str(file), LATEST)
    with pytest.raises(ConfigError, match="cannot read"):
        bound_of("--until", "nowhere.json", LATEST)


@pytest.mark.parametrize("text", ["yesterday", "lines:0", "lines:0:-3", "2026-11-27T06:40:00", "-5", ""])
def test_another_text_is_refused_with_the_forms_that_there_are(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--until '.*(TOPIC:PARTITION:OFFSET|with its offset from UTC)"):
        bound_of("--until", text, LATEST)


@pytest.mark.parametrize(
    ("begin", "until", "why"),
    [
        (None, "words:0:3", "does not read partition 0 of topic 'words'. It reads lines"),
        (None, "lines:0:11", "offset 11 cannot be reached: partition 0 of topic 'lines' ends at offset 10"),
        ("lines:0:11", None, "partition 0 of topic 'lines' ends at offset 10, before 11"),
        ("lines:0:5", "lines:0:4", "would end at offset 4, before its beginning at 5"),
    ],
)
def test_offsets_that_do_not_exist_are_refused(begin: str | None, until: str | None, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Planned().plan(begin, until)


def test_what_is_processed_already_is_refused_if_there_is_state_of_it() -> None:
    planned = Planned()
    planned.commit(4, 4)
    with pytest.raises(ApplicationStateError, match="processed its records up to offset 4 already: give a later end"):
        planned.plan(until="lines:0:3")
    plan = planned.plan("lines:0:3")
    assert "the offsets 3 to 3 are processed again" in plan.notes[0]
    planned.clients.broker.append(CHANGELOG.topic, FakeRecord(b"k", b"1", 1, None), 0)
    with pytest.raises(ApplicationStateError, match=r"'app-counts-changelog' has the state .* count records twice"):
        planned.plan("lines:0:3")
    assert planned.plan("lines:0:4,lines:1:4").notes == ()


def test_what_is_skipped_is_named() -> None:
    planned = Planned()
    planned.commit(4, 4)
    (note,) = planned.plan("lines:1:6").notes
    assert "partition 1 of topic 'lines': the offsets 4 to 5 are skipped" in note


def test_what_retention_has_deleted_is_named_by_partition_and_offset() -> None:
    planned = Planned()
    planned.admin.delete_records({SECOND: 6})
    assert planned.ranges() == [(0, 10), (6, 10)]
    with pytest.raises(
        ConfigError, match="partition 1 of topic 'lines' begins at offset 6: the offsets 2 to 5 are gone"
    ):
        planned.plan("lines:1:2")
    (note,) = planned.plan(str(AN_HOUR)).notes
    assert "partition 1 of topic 'lines' begins at offset 6: records before that were deleted" in note
    planned.commit(3, 3)
    with pytest.raises(
        ApplicationStateError, match=r"would continue at offset 3, but the offsets 3 to 5 are gone"
    ) as it:
        planned.plan()
    assert "--from lines:1:6" in str(it.value)
    assert planned.ranges("lines:1:6") == [(3, 10), (6, 10)]


def test_an_open_transaction_is_named_as_the_reason_of_the_end() -> None:
    planned = Planned("exactly_once_v2")
    producer = planned.clients.transactional_producer("writer")
    producer.init_transactions().result()
    producer.begin_transaction()
    producer.send("lines", b"k", b"v", AN_HOUR, None, 0)
    assert producer.flush(1)
    plan = planned.plan()
    assert plan.stages[0].records[FIRST] == OffsetRange(0, 10)
    (note,) = plan.notes
    assert "a transaction that is open since offset 10 holds back the records from there to 11" in note
    with pytest.raises(
        ConfigError, match=r"--until: offset 11 cannot be reached: .* open since offset 10 .* wait until"
    ):
        planned.plan(until="lines:0:11")
    producer.commit_transaction({}, b"").result()
    assert planned.plan().notes == ()
