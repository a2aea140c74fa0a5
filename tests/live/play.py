"""Cases live: an application on four partitions that is stopped in the middle and restored elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any

from tests.live.bunches import PARTITIONS, Bunch, Case, Input, owners, prefixed
from tests.live.comparison import differences
from tests.live.partitioned_driver import PartitionedDriver, Written
from tests.live.rig import LiveBunch, configuration

PACE_S = 1.1
"""An operator that looks for closed windows does so once in a second of the wall clock."""


@dataclass(frozen=True)
class Half:
    """What happens of a case before, or after, the restart: global tables are filled while nothing runs, for nobody
    can tell which of two records a live task sees first when one of them is of a global table."""

    filled: list[Input]
    records: list[Input]


def halves(bunch: Bunch, case: Case) -> tuple[Half, Half]:
    """The two halves of a case, cut at a place that follows from its name."""
    inputs = bunch.inputs(case)
    at = Random(case["name"]).randrange(1, max(2, len(inputs)))
    global_topics = set(bunch.built.topology.global_topics)

    def half(part: list[Input]) -> Half:
        filled = [record for record in part if record.topic in global_topics]
        return Half(filled, [record for record in part if record.topic not in global_topics])

    return half(inputs[:at]), half(inputs[at:])


def forgets(case: Case) -> bool:
    """Whether a restart shows: by punctuators, unmatched records of joins of streams (docs/PARITY.md), or by a store
    without a changelog. Then the driver's tasks are restarted, too."""
    return any(
        (step["op"] == "process" and step["fn"].startswith("tick"))
        or (step["op"] == "stream_stream" and step["kind"] != "inner")
        or not step.get("logging", True)
        for step in case["topology"]
    )


def excluded(case: Case) -> str | None:
    """Why a case cannot be compared."""
    if any(step["op"] == "process" and step["fn"].startswith("tick_wall") for step in case["topology"]):
        return "punctuates by the wall clock"
    return None


class Expected:
    """What the driver makes of a bunch."""

    def __init__(self, bunch: Bunch, application_id: str) -> None:
        config = configuration(bunch, application_id)
        self._forgetful = {case["name"] for case in bunch.cases if forgets(case)}
        self._kept, self._restarted = (
            _driven(PartitionedDriver(bunch.built.topology, config, PARTITIONS), bunch, restart)
            for restart in (False, True)
        )

    def of(self, case: Case) -> PartitionedDriver:
        """The driver that has played ``case`` as it was played live."""
        return self._restarted if case["name"] in self._forgetful else self._kept

    def store(self, case: Case, name: str) -> dict[Any, Any]:
        """The content of a store over all tasks."""
        tasks = [it for it in self.of(case).hosted if name in it.state_manager.store_names]
        return {key: value for task in tasks for key, value in task.entries(name)}


def _driven(driver: PartitionedDriver, bunch: Bunch, restart: bool) -> PartitionedDriver:
    cut = [halves(bunch, case) for case in bunch.cases]
    for number in (0, 1):
        for half in (it[number] for it in cut):
            for record in (*half.filled, *half.records):
                written = Written(record.key, record.value, record.timestamp, record.headers)
                driver.pipe(record.topic, record.partition, written)
        if restart and number == 0:
            driver.restart()
    return driver


def _rounds(parts: list[Half]) -> Iterator[list[Input]]:
    """The first record of every case, the second, and so on."""
    for together in zip_longest(*(half.records for half in parts)):
        yield [record for record in together if record is not None]


def play(bunch: Bunch, broker: str, application_id: str, state: Path, say: Callable[[str], None]) -> dict[str, list[str]]:
    """The differences by the names of cases; each is there."""
    expected = Expected(bunch, application_id)
    live = LiveBunch(bunch, broker, application_id)
    cut = [halves(bunch, case) for case in bunch.cases]
    with closing(_Ended(live)):
        for number in (0, 1):
            parts = [it[number] for it in cut]
            live.send(record for half in parts for record in half.filled)
            begun = monotonic()
            live.start(state / str(number))
            started = monotonic()
            for records in _rounds(parts):
                sent = monotonic()
                live.send(records)
                live.settle()
                if bunch.paced:
                    sleep(max(0.0, sent + PACE_S - monotonic()))
            played = monotonic()
            stores = live.stores() if number else {}
            live.stop()
            say(f"started in {started - begun:.1f} s, played in {played - started:.1f} s, stopped in {monotonic() - played:.1f} s")
        return compared(bunch, expected, live.written(), stores, application_id)


def compared(
    bunch: Bunch,
    expected: Expected,
    written: Mapping[str, list[list[Written]]],
    stores: Mapping[str, dict[Any, Any]],
    application_id: str,
) -> dict[str, list[str]]:
    """The differences by the names of cases; each is there."""
    of_case = owners(bunch.built.topology, application_id, bunch.cases)
    found = {}
    for case in bunch.cases:
        topics = {topic for topic, owner in of_case.items() if owner == case["name"]} & written.keys()
        topics -= set(bunch.built.inputs) - {topic for topic, _, _ in bunch.built.sinks}
        found[case["name"]] = list(differences(expected.of(case).topics, written, topics))
        for name in bunch.built.stores:
            if name.startswith(prefixed(case, "")) and stores[name] != (there := expected.store(case, name)):
                found[case["name"]].append(f"store {name}: expected {there}, live {stores[name]}")
    return found


class _Ended:
    """What ``closing`` needs to end a bunch."""

    def __init__(self, live: LiveBunch) -> None:
        self.close = live.end
