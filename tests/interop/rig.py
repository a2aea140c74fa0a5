"""An application that Kafka Streams in Java and penstock run in turn, with the same id and the same topics."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, zip_longest
from pathlib import Path
from time import sleep
from typing import Any

from typing_extensions import override

from penstock.cluster.client.close_options import CloseOptions
from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.common.records import NO_HEADERS, SENT_NOW
from penstock.kafka.clients import ConfluentClients
from penstock.state.buffers.change_buffer import ChangeBufferBuilder
from penstock.state.windowed.join_window_store import JoinWindowStoreBuilder
from penstock.testing.whole_topics import whole
from penstock.topology.physical.topology import internal_topic
from tests.interop.java_application import JavaApplication
from tests.live.bunches import Bunch, Input, owners, steps_of
from tests.live.comparable import Comparable, changelogs_made_comparable, made_comparable, numbered_anew
from tests.live.comparison import Topics, differences, last_differences
from tests.live.partitioned_driver import Written
from tests.live.play import PACE_S
from tests.live.rig import LOOK_EACH_S, LiveBunch
from tests.waiting import PATIENCE_S

JAVA, PENSTOCK = "Java", "penstock"
PARTS = 3
"""Number of parts of a run; another host plays each of them."""
_LEAVE = CloseOptions.group_membership_operation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP)
_REMAIN = CloseOptions()


class Shared(LiveBunch):
    """A bunch on topics of its own; either of the two runs it."""

    def __init__(self, bunch: Bunch, broker: str, application_id: str, java: JavaApplication, guarantee: str) -> None:
        super().__init__(bunch, broker, application_id)
        self._java = java
        self._java_runs = False
        self._guarantee = guarantee
        self._starts = 0
        self.session_ms = 45_000
        """Time after which the group misses a member that has ended without a word."""
        self.protocol = "classic"
        """The ``group.protocol`` of Kafka Streams."""
        self.descriptions: set[str] = set()
        if guarantee == "exactly_once_v2":
            self._clients = ConfluentClients(broker, application_id, {"isolation.level": "read_committed"})

    @override
    def configuration(self, state_dir: Path) -> dict[str, Any]:
        own = {"processing.guarantee": self._guarantee, "consumer.session.timeout.ms": self.session_ms}
        return {**super().configuration(state_dir), **own}

    def start_in(self, host: str, folder: Path) -> None:
        """Runs the application in ``host``, with an empty state directory; returns when all tasks run."""
        self._starts += 1
        if host == PENSTOCK:
            self.start(folder / f"state-{self._starts}")
            assert self.app is not None
            self.descriptions.add(self.app.describe())
            return
        config = {
            "application.id": self.application_id,
            "bootstrap.servers": self._broker,
            "processing.guarantee": self._guarantee,
            "statestore.cache.max.bytes": 0,
            "commit.interval.ms": 100,
            "repartition.purge.interval.ms": 3_600_000,
            "group.protocol": self.protocol,
            **({"session.timeout.ms": self.session_ms} if self.protocol == "classic" else {}),
        }
        topology = [step for case in self.bunch.cases for step in steps_of(case)]
        self._java_runs = True
        self.descriptions.add(self._java.start(topology, config))

    def end(self, leave: bool = True) -> None:
        """Stops the host that runs it. ``leave``: the group is empty then."""
        if self._java_runs:
            self._java.stop(leave)
            self._java_runs = False
        else:
            assert self.app is not None
            assert self.app.close(_LEAVE if leave else _REMAIN)
            self.app = None

    @override
    def settle(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while behind := self._behind():
            if self.app is not None and not (status := self.app.status()).state.is_live:
                raise AssertionError(f"{self.application_id}: {status.state.value}: {status.error}")
            assert time.monotonic() < deadline, f"not processed within {PATIENCE_S:.0f} s: {behind}"
            time.sleep(LOOK_EACH_S)

    def _behind(self) -> set[TopicPartition]:
        sent = {tp: count for tp, count in self._sent.items() if count}
        committed = self._consumer.committed([*sent, *self._written_by_tasks])
        ends = self._consumer.fetch_end_offsets(self._written_by_tasks)
        # The last offset in a topic that transactions write is a marker, which an application may not have passed.
        marker = 1 if self._guarantee == "exactly_once_v2" else 0
        behind = {tp for tp in self._written_by_tasks if ends[tp] - marker > _offset(committed, tp)}
        return behind | {tp for tp, count in sent.items() if count > _offset(committed, tp)}

    @override
    def written(self) -> dict[str, list[list[Written]]]:
        partitions = self._partitions(self.bunch.topics | self.internal_topics())
        found: dict[str, list[list[Written]]] = {
            tp.topic: [[] for _ in range(self.bunch.partitions)] for tp in partitions
        }
        for batch in whole(self._clients, partitions):
            rows = zip(batch.keys, batch.values, batch.timestamps, strict=True)
            headers = batch.headers or [None] * len(batch.keys)
            found[batch.partition.topic][batch.partition.partition] += [
                Written(*row, each or NO_HEADERS) for row, each in zip(rows, headers, strict=True)
            ]
        return found

    @override
    def close(self) -> None:
        if self._java_runs:
            self._java.stop()
        super().close()


def _offset(committed: Mapping[TopicPartition, CommittedOffset], partition: TopicPartition) -> int:
    return committed[partition].offset if partition in committed else 0


def parts(bunch: Bunch) -> tuple[list[Input], list[list[list[Input]]]]:
    """Returns the records of global tables, and the parts of a run, which consist of rounds. In a round each case has
    one record, so that two inputs of a join never have records at the same time."""
    by_all = set(bunch.built.topology.global_topics)
    inputs = [bunch.inputs(case) for case in bunch.cases]
    filled = [record for of_case in inputs for record in of_case if record.topic in by_all]
    streams = [[record for record in of_case if record.topic not in by_all] for of_case in inputs]
    rounds = [[record for record in together if record is not None] for together in zip_longest(*streams)]
    cuts = [len(rounds) * number // PARTS for number in range(PARTS + 1)]
    return filled, [rounds[begin:end] for begin, end in pairwise(cuts)]


def play(shared: Shared, hosts: tuple[str, ...], folder: Path) -> Iterator[float]:
    """Plays the bunch, each part in the next host; the last host plays what is left. Yields the seconds of each
    hand-over: from the order to stop until all tasks run again."""
    filled, parted = parts(shared.bunch)
    shared.send(filled)
    shared.start_in(hosts[0], folder)
    for number, rounds in enumerate(parted):
        if 0 < number < len(hosts):
            begun = time.monotonic()
            shared.end()
            shared.start_in(hosts[number], folder)
            yield time.monotonic() - begun
        for records in rounds:
            shared.send(records)
            shared.settle()
            if shared.bunch.paced:
                sleep(PACE_S)
    shared.end()


@dataclass(frozen=True)
class Played:
    """All that one run has written, by the number of the case and by topic, without names that are the run's own."""

    bunch: Bunch
    topics: list[Topics]

    @staticmethod
    def of(shared: Shared) -> Played:
        """Returns what ``shared`` has written, once it has ended."""
        bunch, application_id = shared.bunch, shared.application_id
        by_case = owners(bunch.built.topology, application_id, bunch.cases)
        written = made_comparable(shared.written(), _comparable(bunch, application_id))
        own = (application_id, bunch.name)
        return Played(
            bunch,
            [
                {
                    _without(own, topic): [[_row_without(own, row) for row in rows] for rows in partitions]
                    for topic, partitions in written.items()
                    if by_case.get(topic) == case["name"]
                }
                for case in bunch.cases
            ],
        )


def _comparable(bunch: Bunch, application_id: str) -> dict[str, Comparable]:
    """Returns the functions that make rows of changelogs comparable, by topic."""
    found = changelogs_made_comparable(bunch, application_id, backfilled=False, transactional=True)
    for name, store in bunch.built.topology.store_builders.items():
        topic = internal_topic(application_id, f"{name}-changelog")
        if isinstance(store, JoinWindowStoreBuilder):
            found[topic] = numbered_anew  # both count from 0 after each start
        elif isinstance(store, ChangeBufferBuilder):
            found[topic] = partial(_untimed, found[topic])
    return found


def _untimed(comparable: Comparable, rows: list[Written]) -> list[Written]:
    """Returns rows of a suppression's buffer without their time, that of the wall clock when they were sent."""
    return [replace(row, timestamp=SENT_NOW) for row in comparable(rows)]


def _without(names: tuple[str, ...], topic: str) -> str:
    for name in names:
        topic = topic.replace(name, "")
    return topic


def _row_without(names: tuple[str, ...], row: Written) -> Written:
    """Returns a row without names of topics, which the changelog of a suppression has in its values."""
    value = row.value
    for name in names if value is not None else ():
        value = value.replace(name.encode(), b"") if value is not None else None
    return replace(row, value=value)


def differing(expected: Played, actual: Played) -> list[list[str]]:
    """Returns the differences of each case: of all results, and of the last rows of changelogs."""
    found = []
    for there, came in zip(expected.topics, actual.topics, strict=True):
        changelogs = {topic for topic in there.keys() | came.keys() if topic.endswith("-changelog")}
        others = there.keys() | came.keys() - changelogs
        paced = expected.bunch.paced
        # A record without a key goes to any partition of a repartition topic, and moves the time there.
        keyless = any(row.key is None for topic in others for rows in there.get(topic, []) for row in rows)
        found.append(
            [
                *differences(there, came, others - changelogs, headers=not paced, ordered=not keyless),
                *last_differences(there, came, changelogs, by_clock=paced),
            ]
        )
    return found
