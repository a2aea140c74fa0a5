"""The stream loops of an application under ``exactly_once_v2`` on a broker in memory, and their faults.

A test controls the time, which loop makes a step, and the faults. The loops, their tasks, stores and transactions are
those that run live.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from penstock.actors.commits.exactly_once import transactional_id
from penstock.actors.loop.lease import Lease
from penstock.actors.loop.stream_loop import StreamLoop
from penstock.actors.spec import ApplicationSpec
from penstock.common.config import StreamsConfig
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.records import NO_HEADERS
from penstock.common.topics import NewTopic
from penstock.kafka.internal_topics.creation import ensure_topics
from penstock.testing.fake_broker import FakeLog, FakeRecord
from penstock.testing.fake_clients import FakeClients
from penstock.topology.physical.topic_plan import plan_topics
from tests.actors.rig import APPLICATION
from tests.actors.rig_coordinator import FakeCoordinator
from tests.live.bunches import Bunch, Input
from tests.live.partitioned_driver import Written
from tests.parity.fuzz.keyless import KeylessToFirst

_INTERVAL_S = 1.0
_MOST_STEPS = 20_000
_MOST_ROUNDS = 500
_LONGEST_PAUSE_S = 5.0

ABORTS = ("refused", "fenced", "expired", "broker away")
"""Faults after which an actor goes back to the last commit over the same stores."""
ALL = (
    *ABORTS, "answer lost", "killed", "killed in a commit", "killed, answer lost", "disk wiped", "older disk", "moved",
)  # fmt: skip


@dataclass
class TwoClocks:
    """The clock of punctuators, and the one that measures intervals: they are moved separately."""

    now_ms: int
    seconds: float = 1000.0

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_s(self) -> float:
        return self.seconds

    def thread_cpu_s(self) -> float:
        return self.monotonic_s()


@dataclass(frozen=True)
class Restart:
    """A restart of ``tasks`` in ``step`` of the input, after ``consumed`` records of each partition."""

    step: int
    tasks: frozenset[TaskId]
    consumed: Mapping[TopicPartition, int]


class TroubledActors:
    """Stream loops with faults: ``happened`` counts the faults, ``restarts`` lists the restarts of tasks."""

    def __init__(
        self, bunch: Bunch, config: Mapping[str, Any], partitions: int, actors: int, folder: Path, random: Random,
        faults: Iterable[str], wall_ms: int,
    ) -> None:  # fmt: skip
        self.broker = KeylessToFirst()
        self.clock = TwoClocks(wall_ms)
        self.happened: Counter[str] = Counter()
        self.restarts: list[Restart] = []
        self.step = 0
        self._random = random
        self._faults = sorted(faults)
        self._folder = folder
        self._clients = FakeClients(APPLICATION, self.broker, read_committed=True)
        self._coordinator = FakeCoordinator(self.broker, exactly_once=True)
        self._coordinator.join()
        self._clients.admin().create_topics(NewTopic(topic, partitions) for topic in bunch.topics)
        settings = {**config, "processing.guarantee": "exactly_once_v2", "commit.interval.ms": int(_INTERVAL_S * 1000)}
        checked = StreamsConfig.of(settings)
        planned = partial(plan_topics, bunch.built.topology, checked)
        self._plan = ensure_topics(self._clients.admin(), planned).tasks
        self._spec = ApplicationSpec(bunch.built.topology, checked)
        self._epoch = 0
        tasks = sorted(self._plan.partitions)
        self._owned = [set(tasks[number::actors]) for number in range(actors)]
        self._disk = [0] * actors
        self._aborted = [0] * actors
        self.loops = [self._begin(number) for number in range(actors)]
        self.recover()

    # ---- actors ----

    def _begin(self, number: int) -> StreamLoop:
        """Starts the actor of slot ``number`` on its disk."""
        config = self._spec.config.model_copy(update={"state_dir": self._path(number)})
        spec = ApplicationSpec(self._spec.topology, config)
        commit, slot = self._coordinator.commit, number + 1
        loop = StreamLoop(
            spec,
            f"stream/{slot}",
            self._clients,
            commit,
            self.clock,
            "node",
            slot,
            lease=Lease.unlimited(self.clock.monotonic_s),
        )
        self._coordinator.watch(loop, f"stream/{slot}")
        self._aborted[number] = 0
        self._assign(loop, number)
        return loop

    def _assign(self, loop: StreamLoop, number: int) -> None:
        self._epoch += 1
        loop.assign(self._epoch, {task: self._plan.partitions[task] for task in self._owned[number]})

    def _path(self, number: int) -> Path:
        return self._folder / f"actor-{number}-disk-{self._disk[number]}"

    def _kill(self, number: int) -> None:
        """Ends an actor like a killed process: nothing aborts its transaction or closes its stores cleanly."""
        loop = self.loops[number]
        loop._commits.abandon()
        for hosted in loop._tasks.values():
            hosted.state_manager.close()
        loop._globals.close()
        loop._restoration.close()
        self._note(frozenset(self._owned[number]))

    def _note(self, tasks: frozenset[TaskId]) -> None:
        away, self.broker.down = self.broker.down, False
        committed = self.broker.committed(APPLICATION)
        consumed = {}
        for task in tasks:
            for tp in self._plan.partitions[task]:
                to = committed[tp].offset if tp in committed else 0
                consumed[tp] = sum(record.is_committed for record in self.broker.log(tp).records[:to])
        self.restarts.append(Restart(self.step, tasks, consumed))
        self.broker.down = away

    # ---- time ----

    def _turn(self, number: int) -> float:
        """Runs one step of an actor; returns the seconds that it would wait."""
        loop = self.loops[number]
        wait_s = loop.step()
        assert not loop.finished.done(), loop.finished.result()
        if loop._hosted.aborted > self._aborted[number]:
            self._aborted[number] = loop._hosted.aborted
            self._note(frozenset(self._owned[number]))
        return wait_s

    def settle(self) -> None:
        """Steps the actors until all of them would wait."""
        for number in range(len(self.loops)):
            for _ in range(_MOST_STEPS):
                if self._turn(number) > 0 and self._turn(number) > 0:
                    break
            else:
                raise AssertionError(f"actor {number} is still busy after {_MOST_STEPS} steps")

    def commit(self) -> None:
        """Let the commit interval pass."""
        self.clock.seconds += _INTERVAL_S * 1.01
        self.settle()

    def recover(self) -> None:
        """Steps the actors until all tasks run again."""
        for _ in range(_MOST_ROUNDS):
            self.settle()
            if all({it.id for it in loop._running} == mine for loop, mine in zip(self.loops, self._owned, strict=True)):
                return
            self.clock.seconds += _LONGEST_PAUSE_S * 1.01
        raise AssertionError("tasks do not run again")

    # ---- input ----

    def send(self, record: Input, partition: int) -> None:
        """Appends a record to its topic, as a producer without transactions does."""
        headers = list(record.headers) or None
        self.broker.append(record.topic, FakeRecord(record.key, record.value, record.timestamp, headers), partition)

    def work(self, troubles: float) -> None:
        """Steps the actors through random faults until all that can be read is processed and committed."""
        for _ in range(_MOST_ROUNDS):
            self.settle()
            while self._random.random() < troubles:
                self._happen()
            self.commit()
            if self._is_at_rest():
                return
        raise AssertionError("never at rest")

    def _is_at_rest(self) -> bool:
        committed = self.broker.committed(APPLICATION)
        return all(
            _last_seen(self.broker.log(tp)) <= (committed[tp].offset if tp in committed else 0)
            for tp in self._plan.reads
        )

    # ---- faults ----

    def _happen(self) -> None:
        what, number = self._random.choice(self._faults), self._random.randrange(len(self.loops))
        if what == "moved" and len(self.loops) == 1:
            what = "disk wiped"
        self.happened[what] += 1
        _FAULTS[what](self, number)
        if self._random.random() < 0.3:
            for _ in range(self._random.choice([1, 3, 10, 30])):
                self._turn(number)  # the next fault may come before the actors recover
        else:
            self.recover()

    def _refused(self, number: int) -> None:
        self._coordinator.join()
        self.commit()

    def _fenced(self, number: int) -> None:
        self.broker.init_producer(transactional_id(APPLICATION, "", number + 1))
        self.commit()

    def _expired(self, number: int) -> None:
        self.broker.expire_transactions()

    def _broker_away(self, number: int) -> None:
        self.broker.down = True
        self.clock.seconds += _INTERVAL_S * 1.01
        for _ in range(self._random.choice([1, 5, 20])):
            self._turn(number)
        self.broker.down = False

    def _answer_lost(self, number: int) -> None:
        self._into_a_commit(number, lost=True, steps=60)

    def _into_a_commit(self, number: int, lost: bool, steps: int) -> None:
        self.clock.seconds += _INTERVAL_S * 1.01
        self.broker.loses_answers = lost
        for _ in range(steps):
            self._turn(number)
            if lost and self._hears_nothing(number):
                break
        self.broker.loses_answers = False

    def _hears_nothing(self, number: int) -> bool:
        return bool(self.loops[number]._jobs) and self.loops[number]._job is None

    def _killed(self, number: int) -> None:
        self._kill(number)
        self.loops[number] = self._begin(number)

    def _killed_in_a_commit(self, number: int) -> None:
        self._into_a_commit(number, lost=False, steps=self._random.randrange(1, 15))
        self._killed(number)

    def _killed_and_answer_lost(self, number: int) -> None:
        self._into_a_commit(number, lost=True, steps=60)
        self._killed(number)

    def _wiped(self, number: int) -> None:
        self._kill(number)
        shutil.rmtree(self._path(number), ignore_errors=True)
        self.loops[number] = self._begin(number)

    def _on_an_older_disk(self, number: int) -> None:
        self._kill(number)
        self._disk[number] = 1 - self._disk[number]
        self.loops[number] = self._begin(number)

    def _moved(self, number: int) -> None:
        """Moves a task from one actor to the next, which has the task's stores of another time, or none."""
        if not self._owned[number]:
            return
        self.recover()
        task, to = self._random.choice(sorted(self._owned[number])), (number + 1) % len(self.loops)
        self._owned[number].discard(task)
        self._assign(self.loops[number], number)
        self.recover()
        self._note(frozenset([task]))
        self._owned[to].add(task)
        self._assign(self.loops[to], to)

    def kill_all(self) -> None:
        """Kills every actor and starts it again on its disk."""
        for number in range(len(self.loops)):
            self._killed(number)
        self.recover()

    # ---- afterwards ----

    def kill_all_and_restore(self) -> None:
        """Kills every actor and starts it again on an empty disk."""
        for number in range(len(self.loops)):
            self._wiped(number)
        self.recover()

    def close(self) -> None:
        """Closes what is open."""
        for number in range(len(self.loops)):
            self._kill(number)

    def written(self, topics: Iterable[str]) -> dict[str, list[list[Written]]]:
        """Returns what a reader of committed records sees, by topic and partition."""
        return {
            topic: [
                [Written(it.key, it.value, it.timestamp, tuple(it.headers or ()) or NO_HEADERS) for it in seen]
                for number in range(self.broker.topics()[topic])
                if (seen := _seen(self.broker.log(TopicPartition(topic, number)))) is not None
            ]
            for topic in topics
        }

    def open_transactions(self) -> list[str]:
        """Returns the partitions whose committed records an open transaction holds back."""
        partitions = [TopicPartition(topic, n) for topic, count in self.broker.topics().items() for n in range(count)]
        return [str(tp) for tp in partitions if (log := self.broker.log(tp)).stable_end < log.end]

    def stores(self, names: Iterable[str]) -> dict[str, dict[Any, Any]]:
        """Returns the rows of each store over all tasks, without timestamps."""
        found: dict[str, dict[Any, Any]] = {}
        for name in names:
            if (shared := self.loops[0]._globals.stores.get(name)) is not None:
                opened = [shared.opened]
            else:
                managers = [it.state_manager for loop in self.loops for it in loop._tasks.values()]
                opened = [it.store(name) for it in managers if name in it.store_names]
            rows = (row for store in opened for row in store.view().all())
            found[name] = {key: value.value if hasattr(value, "timestamp") else value for key, value in rows}
        return found


def _seen(log: FakeLog) -> list[FakeRecord]:
    return [it for it in log.records[: log.stable_end - log.beginning] if it.is_committed]


def _last_seen(log: FakeLog) -> int:
    """Returns the offset after the last record that a reader of committed records gets."""
    for offset in range(log.end - 1, log.beginning - 1, -1):
        if log.records[offset - log.beginning].is_committed:
            return offset + 1
    return 0


_FAULTS: dict[str, Callable[[TroubledActors, int], None]] = {
    "refused": TroubledActors._refused,
    "fenced": TroubledActors._fenced,
    "expired": TroubledActors._expired,
    "broker away": TroubledActors._broker_away,
    "answer lost": TroubledActors._answer_lost,
    "killed": TroubledActors._killed,
    "killed in a commit": TroubledActors._killed_in_a_commit,
    "killed, answer lost": TroubledActors._killed_and_answer_lost,
    "disk wiped": TroubledActors._wiped,
    "older disk": TroubledActors._on_an_older_disk,
    "moved": TroubledActors._moved,
}
