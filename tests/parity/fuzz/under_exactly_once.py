"""Cases under ``exactly_once_v2`` with faults of actors, compared with the *whole run*: the same records, no faults.

Each is played up to three times:

- *record by record*, without caches: a transaction, or several, for each record, so that all that is written can be
  compared, record by record, whatever the topology;
- the same *with caches*, where only the last of each key counts;
- *together*: several records in one transaction, if their order does not depend on when each actor commits.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

from typing_extensions import override

from penstock.common.ids import TopicPartition
from penstock.topology.physical.topology import SinkNode, Topology
from tests.actors.rig import APPLICATION
from tests.live.bunches import BASE_MS, Bunch, Case, Input, paced
from tests.live.comparison import Topics
from tests.live.partitioned_driver import PartitionedDriver, Written
from tests.live.play import Stores, compared, excluded
from tests.live.rig import configuration
from tests.parity import restarts
from tests.parity.fuzz.troubled_actors import ABORTS, ALL, Restart, TroubledActors
from tests.parity.ops_own import IDLE

WAYS = ("record by record", "with caches", "together")
WITH_CACHES = "shows when commits are, also without faults: only without caches"
WITHOUT_FAULTS = "has an order that depends on commits, also without faults"
_WALL_MS = BASE_MS + 43_200_000
_PACE_MS = 1100
_QUICK = Path("/dev/shm")
"""A file system in memory. Opening databases is most of the work; in memory it takes half the time."""
_FAULTS = 6
"""Approximate number of faults in a case."""
_IDLE_STEP_MS = 100
_PUNCTUATES = "punctuates by the wall clock"


@dataclass
class TroubledReport:
    """Counts and differences of one run."""

    plays: Counter[str] = field(default_factory=Counter)
    """Number of plays by way."""
    faults: Counter[str] = field(default_factory=Counter)
    restarts: int = 0
    aborted: int = 0
    """Number of records that no reader of committed records sees."""
    refused: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    differences: dict[str, list[str]] = field(default_factory=dict)

    def leaves_out(self, way: str, reason: str) -> list[str]:
        """Counts a play that cannot be compared as left out; returns no differences."""
        self.plays[way] -= 1
        self.left_out[reason] += 1
        return []

    @property
    def cases(self) -> int:
        """Number of plays."""
        return self.plays.total()


Step = Input | int
"""A record, or the ms by which the wall clock advances."""


def hold_under_exactly_once(
    cases: Iterable[Case], seed: int, seconds: float, tell: Callable[[str], None], ways: Sequence[str] = WAYS
) -> TroubledReport:
    """Play ``cases`` for ``seconds``; call ``tell`` with each difference."""
    report, until = TroubledReport(), time.monotonic() + seconds
    for case in cases:
        for way in ways:
            if found := differing_under_exactly_once(case, way, seed, report):
                report.differences[f"{case['name']} {way}"] = found
                tell(f"{case['name']} differs, {way}, seed {seed}: {found[0]}")
        if time.monotonic() > until:
            break
    return report


def differing_under_exactly_once(case: Case, way: str, seed: int, report: TroubledReport) -> list[str]:
    """Returns the differences from the whole run, in words."""
    bunch = Bunch("one", case["config"], (case,), paced(case), caching=way == "with caches")
    try:
        topology = bunch.built.topology
    except Exception:  # whatever it is, penstock refuses the program: nothing can be compared
        report.refused += 1
        return []
    if (reason := _excluded(case, way, topology)) is not None:
        report.left_out[reason] += 1
        return []
    report.plays[way] += 1
    played = partial(_played, bunch, way, f"{seed} {case['name']} {way}", report)
    try:
        found = played(_FAULTS)
    except UnreachedError:
        return report.leaves_out(way, "forgets at a restart, which was amid records that the whole run takes in turn")
    if found and played(0):
        return report.leaves_out(way, WITH_CACHES if bunch.caching else WITHOUT_FAULTS)
    return found


def _played(bunch: Bunch, way: str, seed: str, report: TroubledReport, faults: int) -> list[str]:
    with tempfile.TemporaryDirectory(dir=_QUICK if _QUICK.is_dir() else None) as folder:
        played = _Played(bunch, way, Random(seed), Path(folder), faults)
        try:
            return played.differences(report)
        except UnreachedError:
            raise
        except Exception as error:  # whatever it is, the whole run must raise it, too
            if (alone := played.error_of_the_whole_run()) is None:
                return [f"{type(error).__name__}: {error}"]
            report.plays[way] -= 1
            report.refused += 1
            return [] if alone in str(error) else [f"the whole run raises {alone}, and here: {error}"]


def _excluded(case: Case, way: str, topology: Topology) -> str | None:
    reason = excluded(case)
    if reason == _PUNCTUATES and not paced(case):
        reason = None  # here both sides have the same clock
    if reason is None and restarts.forgets(case) and _unlogged(case):
        reason = "forgets at a restart, and has a store that nothing restores"
    if reason is None and any(step["op"] == "suppress" and not step.get("logging", True) for step in case["topology"]):
        reason = "holds back without a changelog: lost by an abort, as by a restart"
    if reason is None and way == "together":
        if paced(case) or _by_the_clock(case) or restarts.forgets(case):
            return "goes by moments: only record by record"
        return None if _keeps_order(topology) else "has an order that depends on commits: only record by record"
    return reason


def _unlogged(case: Case) -> bool:
    return not all(step.get("logging", True) for step in case["topology"])


def _by_the_clock(case: Case) -> bool:
    return IDLE in case["config"] or any("advance_wall_ms" in record for record in case["input"])


def _keeps_order(topology: Topology) -> bool:
    """Returns True if each sub-topology reads what comes from outside, or one topic that one sub-topology writes, and
    no topic is global: then records have one order, however many of them a transaction has."""
    written = Counter(
        topic
        for sub in topology.every_subtopology
        for topic in {node.topic for node in sub.nodes if isinstance(node, SinkNode) and isinstance(node.topic, str)}
    )
    for sub in topology.subtopologies:
        read = {topic for source in sub.sources for topic in source.topics}
        within = [topic for topic in read if topic in written]
        if within and (len(read) > 1 or written[within[0]] > 1):
            return False
    return not topology.global_topics


class UnreachedError(Exception):
    """The whole run never reached the positions at which the actors' tasks restarted."""


class _Expected(PartitionedDriver):
    """The whole run, with those restarts of tasks that show in its results."""

    def __init__(self, bunch: Bunch, config: Mapping[str, Any], partitions: int, restarts: list[Restart]) -> None:
        super().__init__(bunch.built.topology, config, partitions, _WALL_MS)
        self._restarts = restarts
        self.step = 0

    def begin(self, step: int) -> None:
        """Begins step ``step`` of the input."""
        self.step = step
        self._restart_who_is_due()

    @override
    def work(self) -> None:
        while self._unseen:
            self._work_once()
            self._restart_who_is_due()

    @override
    def pass_time(self, ms: int) -> None:
        """Advances the clock. All tasks see it before one sees what another writes then: that is committed later."""
        self.wall_ms += ms
        for hosted in self.hosted:
            hosted.pass_time()
        self.work()

    def end(self) -> None:
        """Ends the step; raises UnreachedError if a restart that was due has not happened."""
        if missed := [restart for restart in self._restarts if restart.step <= self.step]:
            raise UnreachedError(f"restarts at positions that were never reached: {missed}")

    def _restart_who_is_due(self) -> None:
        while self._restarts and self._restarts[0].step == self.step and self._is_at(self._restarts[0]):
            due = self._restarts.pop(0)
            for hosted in self.hosted:
                if hosted.id in due.tasks:
                    hosted.restart()

    def _is_at(self, restart: Restart) -> bool:
        return all(
            hosted.read(topic) == restart.consumed.get(TopicPartition(topic, hosted.id.partition), 0)
            for hosted in self.hosted
            if hosted.id in restart.tasks
            for topic in hosted.topics
        )

    def of(self, case: Case) -> PartitionedDriver:
        """Returns the driver that has played ``case``: see :func:`tests.live.play.compared`."""
        return self

    def store(self, case: Case, name: str) -> dict[Any, Any]:
        """Returns the content of a store over all tasks."""
        if (store := self.global_stores.get(name)) is not None:
            return dict(store.opened.view().all())
        tasks = [it for it in self.hosted if name in it.state_manager.store_names]
        return {key: value for task in tasks for key, value in task.entries(name)}


class _Played:
    """One case, played by the actors first, whose restarts the whole run may need to repeat."""

    def __init__(self, bunch: Bunch, way: str, random: Random, folder: Path, faults_about: int) -> None:
        (self._case,) = bunch.cases
        self._bunch, self._way, self._random = bunch, way, random
        self._config = configuration(bunch, APPLICATION)
        topology = bunch.built.topology
        single = len(topology.subtopologies) == 1
        self._partitions = random.choice([1, 2]) if way != "together" or single else 1
        self._unlogged = _unlogged(self._case)
        faults = ABORTS if self._unlogged else ALL
        actors = random.choice([1, 1, 2])
        if self._unlogged:
            actors = 1
        self._actors = TroubledActors(
            bunch, self._config, self._partitions, actors, folder, random, faults, _WALL_MS
        )  # fmt: skip
        self._steps = list(self._cut())
        self._troubles = faults_about / max(len(self._steps), 2 * faults_about)

    def _cut(self) -> Iterator[list[Step]]:
        """Yields the input in steps: what comes together is one step."""
        inputs = self._bunch.inputs(self._case)
        if self._way == "together":
            inputs = list(accumulate(inputs, _later))
            while inputs:
                many = self._random.randrange(1, 8)
                yield list(inputs[:many])
                inputs = inputs[many:]
            return
        records = iter(inputs)
        for step in self._case["input"]:
            yield [step["advance_wall_ms"] if "advance_wall_ms" in step else next(records)]

    def differences(self, report: TroubledReport) -> list[str]:
        actors = self._actors
        try:
            for number, steps in enumerate(self._steps):
                actors.step = number
                self._feed(steps)
            stores = actors.stores(self._bunch.stores)
            topics = {*self._bunch.topics, *(name for name in actors.broker.topics() if name.startswith(APPLICATION))}
            written = actors.written(topics)
            found = [f"held back by a transaction at the end: {tp}" for tp in actors.open_transactions()]
            found += self._compared(written, stores)
            if not self._unlogged:
                actors.step = len(self._steps)
                actors.kill_all_and_restore()
                restored = actors.stores(self._bunch.stores)
                found += [
                    f"store {name}: held {stores[name]}, restored {restored[name]}"
                    for name in stores
                    if stores[name] != restored[name]
                ]
            return found
        finally:
            report.faults += actors.happened
            report.restarts += len(actors.restarts)
            actors.broker.down = False
            for topic in actors.broker.topics():
                report.aborted += len(actors.broker.uncommitted_records(topic)) - len(actors.broker.records(topic))
            actors.close()

    def _feed(self, steps: list[Step]) -> None:
        actors, troubles = self._actors, self._troubles
        for step in steps:
            if isinstance(step, int):
                # A call by the clock is not repeated when its transaction is aborted, so no fault may hit it: not even
                # one that has happened before and shows at the next commit alone.
                troubles = 0
                if not self._unlogged:
                    actors.kill_all()
                self._pass(step)
            else:
                actors.send(step, step.partition % self._partitions)
        if self._bunch.paced and IDLE not in self._case["config"]:
            actors.clock.now_ms += _PACE_MS
        actors.work(troubles)

    def _pass(self, ms: int) -> None:
        step_ms = _IDLE_STEP_MS if IDLE in self._case["config"] else ms
        for _ in range(0, ms, max(1, step_ms)):
            self._actors.clock.now_ms += step_ms
            self._actors.settle()

    def _compared(self, written: Topics, stores: Stores) -> list[str]:
        forgetful = restarts.forgets(self._case)
        last = len(self._steps)
        expected = self._whole_run([each for each in self._actors.restarts if each.step < last] if forgetful else [])
        played = compared(self._bunch, expected, written, stores, APPLICATION, transactional=True)
        return played.differences[self._case["name"]]

    def error_of_the_whole_run(self) -> str | None:
        """Returns the name of the exception that the whole run raises without restarts; None if it raises none."""
        try:
            self._whole_run([])
        except Exception as error:  # whatever it is
            return type(error).__name__
        return None

    def _whole_run(self, shown: list[Restart]) -> _Expected:
        expected = _Expected(self._bunch, self._config, self._partitions, shown)
        for number, steps in enumerate(self._steps):
            expected.begin(number)
            for step in steps:
                if isinstance(step, int):
                    expected.pass_time(step)
                else:
                    record = Written(step.key, step.value, step.timestamp, step.headers)
                    expected.pipe(step.topic, step.partition % self._partitions, record)
            expected.end()
        return expected


def _later(before: Input, record: Input) -> Input:
    return replace(record, timestamp=max(before.timestamp + 1, record.timestamp))
