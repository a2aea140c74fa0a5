"""Cases live: an application on four partitions that is stopped in the middle and restored elsewhere."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import accumulate, zip_longest
from pathlib import Path
from random import Random
from time import sleep
from typing import Any, Protocol

from penstock.topology.physical.topology import SinkNode, internal_topic
from tests.live.bunches import Bunch, Case, Input, owners, prefixed
from tests.live.comparable import changelogs_made_comparable, made_comparable
from tests.live.comparison import Topics, differences, last_differences
from tests.live.partitioned_driver import PartitionedDriver, Written
from tests.live.rig import LiveBunch, configuration
from tests.parity import restarts
from tests.parity.ops_own import IDLE

Stores = Mapping[str, dict[Any, Any]]
"""The rows of named key-value stores."""
PACE_S = 1.1
"""An operator that looks for closed windows does so once in a second of the wall clock."""
_PASSES_MS = 60_000
"""Advance of the driver's clock when no more records come, which closes whatever is open."""


@dataclass(frozen=True)
class Half:
    """The records of a case before, or after, the restart. Global tables are filled while nothing runs: otherwise a
    live task may see either of two records first if one of them is of a global table."""

    filled: list[Input]
    records: list[Input]


@dataclass(frozen=True)
class Outcome:
    """The differences by the name of each case, and the number of records in all topics."""

    differences: dict[str, list[str]]
    records: int


def halves(bunch: Bunch, case: Case, in_order: bool = False, seed: int = 0) -> tuple[Half, Half]:
    """Returns the halves of a case, cut at a place that follows from its name and ``seed``. ``in_order``: no record is
    late, and no two have the same time."""
    inputs = bunch.inputs(case)
    if in_order:
        inputs = list(accumulate(inputs, _later))
    at = Random(f"{case['name']} {seed}" if seed else case["name"]).randrange(1, max(2, len(inputs)))
    if IDLE in case["config"]:
        at = next(number for number, record in enumerate(case["input"]) if "advance_wall_ms" in record)
    global_topics = set(bunch.built.topology.global_topics)

    def half(part: list[Input]) -> Half:
        filled = [record for record in part if record.topic in global_topics]
        return Half(filled, [record for record in part if record.topic not in global_topics])

    return half(inputs[:at]), half(inputs[at:])


def _later(before: Input, record: Input) -> Input:
    return replace(record, timestamp=max(before.timestamp + 1, record.timestamp))


def forgets(case: Case) -> bool:
    """Returns True if a restart shows: as in :func:`tests.parity.restarts.forgets`, or by a store without a changelog.
    Then the driver's tasks are restarted, too."""
    return restarts.forgets(case) or not all(step.get("logging", True) for step in case["topology"])


def excluded(case: Case) -> str | None:
    """Returns the reason why a case cannot be compared; None if it can."""
    # "tick_wall:…" of processors, "ticks:s10,w10" of those that are added by hand: w is the wall clock.
    if any(re.match("tick_wall|ticks:.*w", step.get("fn", "")) for step in case["topology"]):
        return "punctuates by the wall clock"
    if any(step.get("fn", "").partition(":")[0] in ("meta", "ticks") for step in case["topology"]):
        return "tells the wall clock and offsets in its values"
    if any(name.startswith("KSTREAM-") for step in case["topology"] for name in step.get("parents", ())):
        return "names nodes by generated names, whose numbers are others in a bunch"
    return None


class WholeRun(Protocol):
    """The results of cases that a driver has played."""

    def of(self, case: Case) -> PartitionedDriver:
        """Returns the driver that has played ``case``."""

    def store(self, case: Case, name: str) -> dict[Any, Any]:
        """Returns the content of a store over all tasks."""


class Expected(WholeRun):
    """The results of a bunch that the driver plays. ``forgets``: True for a case in which a restart shows."""

    def __init__(
        self,
        bunch: Bunch,
        application_id: str,
        cut: list[tuple[Half, Half]],
        forgets: Callable[[Case], bool] = forgets,
    ) -> None:
        config = configuration(bunch, application_id)
        passes_ms = _PASSES_MS if bunch.idle else 0
        self._forgetful = {case["name"] for case in bunch.cases if forgets(case)}
        self._kept, self._restarted = (
            _Driven(PartitionedDriver(bunch.built.topology, config, bunch.partitions), cut, restart, passes_ms)
            for restart in (False, True)
        )
        self.written = [
            {topic: self._restarted.written[half][topic] for topic, _, _ in bunch.built.sinks} for half in (0, 1)
        ]
        """Number of records in each sink's topic after each half."""

    def of(self, case: Case) -> PartitionedDriver:
        """Returns the driver that has played ``case`` as it was played live."""
        return (self._restarted if case["name"] in self._forgetful else self._kept).driver

    def store(self, case: Case, name: str) -> dict[Any, Any]:
        """Returns the content of a store over all tasks."""
        if (store := self.of(case).global_stores.get(name)) is not None:
            return dict(store.opened.view().all())
        tasks = [it for it in self.of(case).hosted if name in it.state_manager.store_names]
        return {key: value for task in tasks for key, value in task.entries(name)}


class _Driven:
    """A driver that has played both halves. After each, the clock advances by ``passes_ms``."""

    def __init__(self, driver: PartitionedDriver, cut: list[tuple[Half, Half]], restart: bool, passes_ms: int) -> None:
        self.driver = driver
        self.written: list[Counter[str]] = []
        for number in (0, 1):
            for half in (it[number] for it in cut):
                for record in (*half.filled, *half.records):
                    written = Written(record.key, record.value, record.timestamp, record.headers)
                    driver.pipe(record.topic, record.partition, written)
            if passes_ms:
                driver.pass_time(passes_ms)
            self.written.append(Counter({topic: sum(map(len, rows)) for topic, rows in driver.topics.items()}))
            if restart and number == 0:
                driver.restart()


def _rounds(parts: list[Half]) -> Iterator[list[Input]]:
    """Yields the first record of every case, then the second, and so on."""
    for together in zip_longest(*(half.records for half in parts)):
        yield [record for record in together if record is not None]


def play(bunch: Bunch, broker: str, application_id: str, state: Path) -> Outcome:
    """Plays both halves live, the second one on another disk."""
    cut = [halves(bunch, case) for case in bunch.cases]
    expected = Expected(bunch, application_id, cut)
    with closing(LiveBunch(bunch, broker, application_id)) as live:
        play_live(live, [first for first, _ in cut], state / "first", expected.written[0])
        stores = play_live(live, [second for _, second in cut], state / "second", expected.written[1])
        return compared(bunch, expected, live.written(), stores, application_id)


def play_with_caches(bunch: Bunch, broker: str, application_id: str, state: Path) -> Outcome:
    """Plays both halves live with caches, as applications are configured by default."""
    return play(replace(bunch, caching=True), broker, application_id, state)


def play_live(
    live: LiveBunch,
    parts: list[Half],
    state: Path,
    written: Mapping[str, int],
    started: Callable[[], None] = lambda: None,
) -> Stores:
    """Plays one half, from start to stop. Returns the stores as queries showed them at its end. If time advances
    without records, it ends when the sinks' topics have as many records as are expected (``written``). ``started`` is
    called when the application runs."""
    live.send(record for half in parts for record in half.filled)
    live.start(state)
    started()
    if live.bunch.idle:
        # All at once: no topic may seem idle before its last record has come.
        live.send(record for half in parts for record in half.records)
        live.settle()
        live.wait_until_written(written)
        stores = live.stores()
        live.stop()
        return stores
    for records in _rounds(parts):
        live.send(records)
        live.settle()
        if live.bunch.paced:
            sleep(PACE_S)  # from the last look on, which may have come late
    stores = live.stores()
    live.stop()
    return stores


def compared(
    bunch: Bunch,
    expected: WholeRun,
    written: Topics,
    stores: Stores,
    application_id: str,
    backfilled: bool = False,
    transactional: bool = False,
) -> Outcome:
    """Returns the differences from what was expected. A backfill writes nothing to repartition topics. With caches
    these have fewer records, and only the last results are the same. ``transactional``: markers are between records."""
    of_case = owners(bunch.built.topology, application_id, bunch.cases)
    sinks = {topic for topic, _, _ in bunch.built.sinks}
    comparable = changelogs_made_comparable(bunch, application_id, backfilled, transactional)
    found = {}
    for case in bunch.cases:
        topics = {topic for topic, owner in of_case.items() if owner == case["name"]} & written.keys()
        topics -= bunch.built.inputs.keys() - sinks
        internal = {topic for topic in topics if topic.startswith(f"{application_id}-")}
        changelogs = {topic for topic in internal if topic.endswith("-changelog")}
        results, passed_on = topics - internal, internal - changelogs
        only_last = bunch.caching or (backfilled and bunch.partitions > 1 and expires_into_shuffles(bunch, case))
        whole = set() if only_last else results if backfilled else results | passed_on
        last = changelogs | (results if only_last else set())
        there, came = (made_comparable(side, comparable) for side in (expected.of(case).topics, written))
        # A record without a key moves the time of whatever partition it has come to.
        keyless = any(row.key is None for topic in passed_on for rows in there.get(topic, []) for row in rows)
        found[case["name"]] = [
            # Which record finds that a window has closed, and gives its headers, depends on the wall clock there.
            *differences(there, came, whole, headers=not bunch.paced, ordered=not keyless),
            *last_differences(
                there,
                came,
                last,
                expiring(bunch, application_id) if backfilled else frozenset(),
                by_clock=bunch.idle or bunch.paced,
            ),
        ]
        for name in bunch.stores:
            if name.startswith(prefixed(case, "")) and stores[name] != (held := expected.store(case, name)):
                found[case["name"]].append(f"store {name}: expected {held}, live {stores[name]}")
    return Outcome(found, sum(len(rows) for partitions in written.values() for rows in partitions))


def expires_into_shuffles(bunch: Bunch, case: Case) -> bool:
    """Returns True if rows of a table expire, and their deletions go through a repartition topic.

    Each is sent when the next record of its task comes, with a time before that. Live, it comes after what other tasks
    have written meanwhile, and in a backfill at its time (docs/BACKFILL.md, "The order of records")."""
    shuffles = bunch.built.topology.repartition_topics
    return any(
        any(store.changes_by_itself and store.name.startswith(prefixed(case, "")) for store in sub.stores)
        and any(isinstance(node, SinkNode) and node.topic in shuffles for node in sub.nodes)
        for sub in bunch.built.topology.subtopologies
    )


def expiring(bunch: Bunch, application_id: str) -> frozenset[str]:
    """The changelogs of stores whose rows expire."""
    return frozenset(
        internal_topic(application_id, f"{name}-changelog")
        for name, store in bunch.built.topology.store_builders.items()
        if "delete" in store.changelog_config(0).get("cleanup.policy", "")
    )
