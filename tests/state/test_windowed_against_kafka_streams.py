"""Random puts and fetches: the stores here do what Kafka Streams 4.3.1 itself did.

``kafka_streams_stores.jsonl.gz`` has one scenario a line: a persistent store, what a processor does with it at each
record (``ops``), and the results: the answers to the fetches, the changelog's records and the number of dropped
records.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.common.windows import Window, Windowed
from penstock.state.views import ValueAndTimestamp
from tests.state.windowed_model import Shape
from tests.state.windowed_rig import Rig

Scenario = dict[str, Any]

SCENARIOS: list[Scenario] = [
    json.loads(line)
    for line in gzip.decompress(Path(__file__).with_name("kafka_streams_stores.jsonl.gz").read_bytes()).splitlines()
]


def shape_of(scenario: Scenario) -> Shape:
    kind = scenario["kind"]
    return Shape(
        scenario["retention"],
        sessions=kind == "session",
        timestamped=kind == "timestamped",
        retain_duplicates=scenario["duplicates"],
        window_size_ms=scenario["size"],
    )


class Player:
    """Does the scenario's operations; ``results`` are in the scenario's form."""

    def __init__(self, view: Any, timestamped: bool) -> None:
        self.results: list[Any] = []
        self._view = view
        self._timestamped = timestamped
        self._reads: dict[str, Callable[..., Iterator[Any]]] = {
            "fetchRange": self._either("fetch"),
            "fetchKeys": self._either("fetch"),
            "fetchAll": self._either("fetch_all"),
            "all": self._either("all"),
            "sfind": self._either("find_sessions"),
            "sfindKeys": self._either("find_sessions"),
            "sfetch": self._either("fetch"),
            "sfetchKeys": self._either("fetch"),
        }

    def _either(self, name: str) -> Callable[..., Iterator[Any]]:
        """Returns a read of that name; its last argument is True to read backwards."""

        def read(*arguments: Any) -> Iterator[Any]:
            found: Iterator[Any] = getattr(self._view, f"backward_{name}" if arguments[-1] else name)(*arguments[:-1])
            return found

        return read

    def do(self, operation: str, *arguments: Any) -> None:
        match operation, arguments:
            case "put", (key, value, start, timestamp):
                stamped = self._timestamped and value is not None
                self._view.put(key, ValueAndTimestamp(value, timestamp) if stamped else value, start)
            case "sput", (key, start, end, value):
                self._view.put(Windowed(key, Window(start, end)), value)
            case "sremove", (key, start, end):
                self._view.remove(Windowed(key, Window(start, end)))
            case "fetch", _:
                self.results.append([self._shown(self._view.fetch(*arguments))])
            case "sfetch1", _:
                self.results.append([self._shown(self._view.fetch_session(*arguments))])
            case _:
                self.results.append([self._row(*row) for row in self._reads[operation](*arguments)])

    def _row(self, key: Any, value: Any) -> list[Any]:
        if isinstance(key, Windowed):
            return [key.key, key.window.start, key.window.end, self._shown(value)]
        return [key, self._shown(value)]

    @staticmethod
    def _shown(value: Any) -> Any:
        return list(value) if isinstance(value, ValueAndTimestamp) else value


@pytest.mark.parametrize("on_disk", [True, False], ids=["rocksdb", "memory"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: f"{scenario['case']}-{scenario['kind']}")
def test_fetches_changelog_and_dropped_records_are_those_of_kafka_streams(
    scenario: Scenario, on_disk: bool, tmp_path: Path
) -> None:
    shape = shape_of(scenario)
    rig = Rig(shape, tmp_path if on_disk else None)
    player = Player(rig.view, shape.timestamped)
    for record in scenario["records"]:
        rig.now = record["ts"]
        for operation, *arguments in record["ops"]:
            player.do(operation, *arguments)
        rig.commit_unchecked()
    assert player.results == scenario["results"]
    written = [[key.hex(), None if value is None else value.hex(), time] for key, value, time in rig.changelog]
    assert written == scenario["changelog"]
    assert rig.dropped == scenario["dropped"]
    rig.close()


def test_the_scenarios_are_of_every_kind_and_drop_records() -> None:
    kinds = {(scenario["kind"], scenario["duplicates"]) for scenario in SCENARIOS}
    assert kinds == {("window", False), ("window", True), ("timestamped", False), ("session", False)}
    assert sum(scenario["dropped"] for scenario in SCENARIOS) > 50
    assert sum(len(found) for scenario in SCENARIOS for found in scenario["results"]) > 1000
