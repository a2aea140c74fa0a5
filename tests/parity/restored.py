"""Changelogs that penstock wrote, restored by Kafka Streams: ``make restored``.

Each case is played on penstock, and its changelogs, with the topics that it read and how far, are put on a real broker.
There a real ``KafkaStreams`` takes the application over. What its stores hold once they are restored must be what the
stores of Kafka Streams hold at the end of the case.
"""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer
from typing_extensions import override

from penstock.common.records import SENT_NOW, Headers
from penstock.kafka.local_broker.broker import LocalBroker
from penstock.state.windowed.expiring_store import ExpiringStoreBuilder
from penstock.state.windowed.session_store import SessionStoreBuilder
from penstock.testing.topology_test_driver import TopologyTestDriver
from penstock.topology.physical.topology import Topology
from tests.parity import corpus
from tests.parity.build import SERDES, build
from tests.parity.compare import asked
from tests.parity.oracle import KafkaStreams, Restorer, run
from tests.parity.play import pipe

Case = dict[str, Any]

_BY_ALL = ("global_table", "add_global_store")
_SOURCES = ("stream", "table", "versioned_table", "add_source", "add_read_only_state_store", *_BY_ALL)
_AT_ONCE = 50


class _Recording(TopologyTestDriver):
    """A driver that keeps what was piped in, and shows what is in the topics in the end."""

    def __init__(self, topology: Topology, config: Mapping[str, Any]) -> None:
        self._piped: dict[str, list[list[Any]]] = defaultdict(list)
        super().__init__(topology, config)

    @override
    def pipe(self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers = ()) -> None:
        self._piped[topic].append(_record(key, value, timestamp, headers))
        super().pipe(topic, key, value, timestamp, headers)

    def records(self, topic: str) -> list[list[Any]]:
        written = [_record(*record[:4]) for record in self._collector.topics[topic]]
        return [*self._piped[topic], *written]

    @property
    def changelogs(self) -> dict[str, str]:
        """Changelog topics by store, also those that are read as sources."""
        return {name: log.topic for name, log in self._program.changelogs.items()}

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each store."""
        return {store.name: store.kind for store in self._program.stores.values()}

    @property
    def expiring(self) -> list[ExpiringStoreBuilder[Any, Any]]:
        """The window stores and session stores."""
        return [store for store in self._program.stores.values() if isinstance(store, ExpiringStoreBuilder)]


def _record(key: bytes | None, value: bytes | None, timestamp: int, headers: Headers) -> list[Any]:
    named = [[name, None if data is None else data.hex()] for name, data in headers]
    time = None if timestamp == SENT_NOW else timestamp
    return [None if key is None else key.hex(), None if value is None else value.hex(), time, named]


def taken_over(case: Case, number: int) -> Case:
    """Returns the case as Kafka Streams gets it: with an application and topics that no other case has, and all that
    penstock left in the topics."""
    case = _with_own_topics(case, f"c{number}-")
    built, application = build(case), f"restored-{number}"
    config = {
        **case["config"],
        "application.id": application,
        "default.key.serde": SERDES["string"],
        "default.value.serde": SERDES["string"],
    }
    read = {topic for step in case["topology"] if step["op"] in _SOURCES for topic in _topics(step)}
    by_all = {topic for step in case["topology"] if step["op"] in _BY_ALL for topic in _topics(step)}
    driver = _Recording(built.topology, config)
    with driver:
        for event in case["input"]:
            pipe(driver, built, event)
        changelogs, kinds, expiring = driver.changelogs, driver.kinds, driver.expiring
        records = {topic: driver.records(topic) for topic in sorted({*read, *changelogs.values()})}
    return {
        **asked(case),
        "all_stores": True,
        "application": application,
        "topics": records,
        "read": sorted(read - by_all),
        "changelogged": sorted(changelogs),
        "kinds": kinds,
        "retained_ms": {store.name: store.retention_ms for store in expiring},
        "by_end": {store.name: isinstance(store, SessionStoreBuilder) for store in expiring},
    }


def _topics(step: dict[str, Any]) -> list[str]:
    return list(step["topics"]) if "topics" in step else [step["topic"]]


def _with_own_topics(case: Case, prefix: str) -> Case:
    def renamed(step: dict[str, Any]) -> dict[str, Any]:
        step = {**step, "topic": prefix + step["topic"]} if "topic" in step else step
        return {**step, "topics": [prefix + topic for topic in step["topics"]]} if "topics" in step else step

    return {
        **case,
        "topology": [renamed(step) for step in case["topology"]],
        "input": [renamed(event) for event in case["input"]],
    }


def differing_stores(given: Case, played: Case, restored: Case) -> Iterator[tuple[str, str]]:
    """Yields (store, why) for each store that was restored to something else than Kafka Streams itself had in it."""
    for store, entries in restored["stores"].items():
        expected = played["all_stores"].get(store)
        if expected is None:
            continue
        if store in given["retained_ms"]:
            # A cache still has what has expired; a restored store has not.
            expected = _not_expired(expected, given["retained_ms"][store], given["by_end"][store])
            entries = _not_expired(entries, given["retained_ms"][store], given["by_end"][store])
        if expected != entries:
            missing = [entry for entry in expected if entry not in entries]
            more = [entry for entry in entries if entry not in expected]
            yield store, f"missing {missing[:3]}, more {more[:3]}" if missing or more else "another order"


def _not_expired(entries: list[list[str]], retained_ms: int, by_end: bool) -> list[list[str]]:
    """Returns the entries (keys ``[<key>@<start>/<end>]``) that have not expired; sorted: a cache has another order."""

    def time(entry: list[str]) -> int:
        return int(entry[0].rpartition("@")[2].rstrip("]").split("/")[by_end])

    newest = max(map(time, entries), default=0)
    return sorted(entry for entry in entries if time(entry) > newest - retained_ms)


def check(cases: Sequence[Case], oracle: KafkaStreams, restorer: Restorer) -> Iterator[tuple[Case, Case, Case]]:
    """Yields (what was given, Kafka Streams' answer to the case, what it restores from penstock's changelogs)."""
    given = [taken_over(case, number) for number, case in enumerate(cases)]
    played = {case["name"]: answer for case, answer in zip(given, oracle.play(given), strict=True)}
    by_name = {case["name"]: case for case in given}
    for restored in restorer.restore(given):
        yield by_name[restored["name"]], played[restored["name"]], restored


def main(
    share: Annotated[float, typer.Option(min=0, max=1, help="Share of the corpus, chosen at random.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the choice.")] = 1,
    names: Annotated[list[str] | None, typer.Argument(help="Cases by name, instead.")] = None,
) -> None:
    """Restore changelogs of the corpus with Kafka Streams; exit 1 if a store is not what it was."""
    rng = Random(seed)
    cases = [case for file in corpus.FILES for case in corpus.read(file)]
    cases = [case for case in cases if (case["name"] in names if names else rng.random() < share)]
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalBroker(Path(folder), port=0) as broker,
        KafkaStreams() as oracle,
        Restorer(broker.bootstrap_servers) as restorer,
    ):
        wrong = _reported(check(cases, oracle, restorer))
    raise typer.Exit(1 if wrong else 0)


def _reported(results: Iterable[tuple[Case, Case, Case]]) -> int:
    """Prints what was found; returns the number of cases and stores that were wrong."""
    cases = failed = 0
    same, other, unread = Counter[str](), Counter[str](), Counter[str]()
    for given, played, restored in results:
        cases += 1
        if "error" in restored:
            failed += 1
            typer.echo(f"{given['name']}: {restored['error']}")
            continue
        differs = dict(differing_stores(given, played, restored))
        for store in given["changelogged"]:
            found = unread if store not in restored["stores"] else other if store in differs else same
            found[given["kinds"][store]] += 1
        for store, why in differs.items():
            typer.echo(f"{given['name']}: store {store}: {why}")
    typer.echo(f"{cases} cases, {failed} that Kafka Streams did not start")
    for kind in sorted({*same, *other, *unread}):
        typer.echo(
            f"  {kind}: {same[kind] + other[kind]} stores read, {other[kind]} of them differ; "
            f"{unread[kind]} restored that cannot be read from end to end"
        )
    return failed + other.total()


if __name__ == "__main__":
    run(main)
