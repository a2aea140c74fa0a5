"""Random cases in consecutive backfills without Spark, compared with live tasks.

If the program writes to a topic that it also reads, the next backfill reads that, as the live application would.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from penstock.common.config import StreamsConfig
from penstock.common.ids import TopicPartition
from penstock.common.records import NO_HEADERS
from penstock.common.topics import NewTopic
from penstock.state.versioned.store import VersionedKeyValueStoreBuilder
from penstock.state.windowed.expiring_store import ExpiringStateStore
from penstock.state.windowed.join_window_store import JoinWindowStateStore
from penstock.testing.fake_broker import FakeRecord
from penstock.testing.fake_clients import FakeClients
from penstock.topology.physical.topology import internal_topic
from tests.live.backfilled import excluded_from_backfill
from tests.live.bunches import PARTITIONS, Bunch, Case, Input
from tests.live.comparable import changelogs_made_comparable, made_comparable
from tests.live.comparison import Topics, differences, last_differences
from tests.live.partitioned_driver import Written
from tests.live.play import forgets, halves
from tests.live.rig import configuration
from tests.parity.fuzz.keyless import KeylessToFirst
from tests.parity.fuzz.staged_driver import Read, StagedDriver
from tests.pipeline.without_spark import backfill_without_spark

APPLICATION = "app"
_BACKFILLS_AT_MOST = 10
"""Limit for a program that writes to a topic that it reads: it never ends."""
_ROWS_AT_ONCE = 1
"""A task takes records of several topics with the same time in turn, as far as it has them."""


@dataclass
class BackfillReport:
    """Counts and differences of one run."""

    cases: int = 0
    backfills: int = 0
    refused: int = 0
    """Number of cases that the build refused, or the tasks on both sides."""
    differences: dict[str, list[str]] = field(default_factory=dict)


def hold_against_tasks(cases: Iterable[Case], seconds: float, tell: Callable[[str], None]) -> BackfillReport:
    """Play ``cases`` for ``seconds``; call ``tell`` with each difference."""
    report, until = BackfillReport(), time.monotonic() + seconds
    for case in cases:
        if excluded_from_backfill(case) is None:
            report.cases += 1
            if found := differing_in_backfills(case, report):
                report.differences[case["name"]] = found
                tell(f"{case['name']} differs in a backfill: {found[0]}")
        if time.monotonic() > until:
            break
    return report


def differing_in_backfills(case: Case, report: BackfillReport) -> list[str]:
    """Returns the differences between the backfills and the live tasks, in words."""
    bunch = Bunch("one", case["config"], (case,), False)
    if _error(lambda: bunch.built) is not None:  # penstock refuses the program: nothing can be compared
        report.refused += 1
        return []
    played = _Played(bunch, forgets(case))
    begun = report.backfills
    for half in (*halves(bunch, case), None):
        played.send([] if half is None else [*half.filled, *half.records])
        while unread := list(played.unread()):
            report.backfills += 1
            errors = [_error(step) for step in (lambda: played.drive(unread), played.backfill)]
            if errors[0] != errors[1]:
                return [f"the tasks raise {errors[0]}, the backfill {errors[1]}"]
            if errors[0] is not None:
                report.refused += 1
                return []
            if half is not None or report.backfills - begun > _BACKFILLS_AT_MOST:
                break
    return list(played.differences())


def _error(step: Callable[[], object]) -> str | None:
    try:
        step()
    except Exception as error:  # whatever it is, both sides must raise it
        return type(error).__name__
    return None


class _Played:
    """A program that live tasks and backfills play."""

    def __init__(self, bunch: Bunch, forgets: bool) -> None:
        self._bunch, self._topology, self._forgets = bunch, bunch.built.topology, forgets
        settings = configuration(bunch, APPLICATION)
        self._config = StreamsConfig.of(settings)
        self._driver = StagedDriver(self._topology, settings, APPLICATION)
        self._clients = FakeClients(APPLICATION, KeylessToFirst())
        self._clients.admin().create_topics(NewTopic(topic, PARTITIONS) for topic in bunch.topics)
        self._taken: Counter[TopicPartition] = Counter()

    def send(self, records: Iterable[Input]) -> None:
        """Sends ``records`` to the input topics of both sides."""
        for it in records:
            headers = list(it.headers) or None
            self._clients.broker.append(it.topic, FakeRecord(it.key, it.value, it.timestamp, headers), it.partition)
            written = Written(it.key, it.value, it.timestamp, tuple(it.headers) or NO_HEADERS)
            self._driver.written[it.topic][it.partition].append(written)

    def unread(self) -> Iterator[Read]:
        """Yields the records that the driver has not taken yet, and counts them as taken."""
        for topic in sorted(self._driver.read | self._driver.global_topics):
            for number in range(PARTITIONS):
                at = TopicPartition(topic, number)
                for record in self._clients.broker.log(at).records[self._taken[at] :]:
                    self._taken[at] += 1
                    yield Read(at, record)

    def drive(self, unread: Iterable[Read]) -> None:
        """Lets the live tasks take ``unread``. They restart afterwards if that shows, because the tasks of each
        backfill are restored."""
        self._driver.take_all(unread)
        if self._forgets:
            self._driver.restart()

    def backfill(self) -> None:
        """Runs a backfill over what the topics hold."""
        backfill_without_spark(self._topology, self._config, self._clients, _ROWS_AT_ONCE)

    def differences(self) -> Iterator[str]:
        """Yields the differences in results, in what changelogs restore to, and in the offsets."""
        broker, driver = self._clients.broker, self._driver
        comparable = changelogs_made_comparable(self._bunch, APPLICATION, True)
        # Of a versioned store, not only the last record counts: tests/pipeline/test_versioned_backfill.py.
        versioned = [
            name
            for name, store in self._topology.store_builders.items()
            if isinstance(store, VersionedKeyValueStoreBuilder)
        ]
        changelogs = {
            internal_topic(APPLICATION, f"{name}-changelog")
            for name in self._topology.store_builders
            if name not in versioned
        } & broker.topics().keys()
        results = {topic for topic, _, _ in self._bunch.built.sinks}
        came = {topic: list(map(self._log, _partitions(topic))) for topic in results | changelogs}
        there = made_comparable({**driver.topics, **driver.written}, comparable)
        found = made_comparable(came, comparable)
        yield from differences(there, found, results)
        yield from last_differences(self._not_expired(there), self._not_expired(found), changelogs)
        committed = broker.committed(APPLICATION)
        for hosted in driver.hosted:
            for partition, offset in hosted.offsets().items():
                if partition.topic in driver.read and committed[partition] != offset:
                    yield f"offset of {partition}: expected {offset}, committed {committed[partition]}"

    def _not_expired(self, topics: Topics) -> Topics:
        """Returns ``topics`` without the expired rows of changelogs, which no reader sees. A backfill does not hand
        them over, and those of an earlier backfill remain."""
        left = dict(topics)
        for hosted in self._driver.hosted:
            number = hosted.id.partition
            for name in hosted.state_manager.store_names:
                store, topic = hosted.state_manager.store(name), internal_topic(APPLICATION, f"{name}-changelog")
                if isinstance(store, ExpiringStateStore) and topic in left:
                    first, time = _first_kept(store), store.rows.schema.time
                    kept = [row for row in left[topic][number] if row.key and time(row.key) >= first]
                    left[topic] = [*left[topic][:number], kept, *left[topic][number + 1 :]]
        return left

    def _log(self, partition: TopicPartition) -> list[Written]:
        records = self._clients.broker.log(partition).records
        return [Written(it.key, it.value, it.timestamp, tuple(it.headers or ()) or NO_HEADERS) for it in records]


def _first_kept(store: ExpiringStateStore) -> int:
    """Returns the oldest time of rows that are handed over: segments go as a whole, rows of join windows one by one."""
    segments, now = store.rows.segments, store.rows.expiry_time
    if isinstance(store, JoinWindowStateStore):
        return segments.first_visible(now)
    return segments.first_timestamp(segments.first_live(now))


def _partitions(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]
