"""Comparison of the results of a troubled cluster with those of one task host without faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from penstock.common.windows import Window
from penstock.state.windowed.keys import SessionKeySchema
from penstock.testing.fake_broker import FakeBroker
from tests.simulation.programs import Program

Tokens = tuple[str, ...]
_SESSION_KEYS = SessionKeySchema()


def tokens(value: bytes | None) -> Tokens | None:
    """Returns the tokens of a value, sorted: the order between partitions does not count."""
    return None if value is None else tuple(sorted(value.decode().split()))


def last_values(broker: FakeBroker, topic: str) -> dict[str, Tokens]:
    """Returns the last value of each key that has one."""
    last = {(record.key or b"").decode(): tokens(record.value) for record in broker.records(topic)}
    return {key: value for key, value in last.items() if value is not None}


def all_values(broker: FakeBroker, topic: str) -> Counter[tuple[str, Tokens | None]]:
    return Counter(((record.key or b"").decode(), tokens(record.value)) for record in broker.records(topic))


def values_of_keys(broker: FakeBroker, topic: str) -> dict[str, list[str]]:
    """Returns the values of each key, oldest first."""
    values: dict[str, list[str]] = {}
    for record in broker.records(topic):
        values.setdefault((record.key or b"").decode(), []).append((record.value or b"").decode())
    return values


def met_values(broker: FakeBroker, topic: str) -> dict[tuple[str, str], list[str]]:
    """Returns the values of a table that each stream record met, by the record's key and value."""
    met: dict[tuple[str, str], list[str]] = {}
    for record in broker.records(topic):
        value, _, other = (record.value or b"").decode().partition(" ")
        met.setdefault(((record.key or b"").decode(), value), []).append(other)
    return met


def differences(program: Program, wanted: FakeBroker, found: FakeBroker, exactly_once: bool) -> Iterator[str]:
    """Yields the results that are lost or too low; under exactly once also those that are too much."""
    for topic in program.tables:
        if topic in wanted.topics():
            changelog = None if exactly_once else program.sessions.get(topic)
            excused = set() if changelog is None else _names_of_lost_sessions(found, changelog)
            yield from _table(topic, last_values(wanted, topic), last_values(found, topic), exactly_once, excused)
    for topic in program.streams:
        if topic in wanted.topics():
            if topic in program.lookups and not exactly_once:
                table = values_of_keys(wanted, program.lookups[topic])
                yield from _lookups(topic, met_values(wanted, topic), met_values(found, topic), table)
            else:
                yield from _stream(topic, all_values(wanted, topic), all_values(found, topic), exactly_once)


def _table(
    topic: str, wanted: dict[str, Tokens], found: dict[str, Tokens], exactly_once: bool, excused: set[str]
) -> Iterator[str]:
    for key, value in wanted.items():
        other = found.get(key)
        if key.partition("@")[0] in excused:
            continue
        if not exactly_once and _is_in_a_larger_session(key, value, found):
            continue
        if other is None:
            yield f"{topic}: key {key} is lost, it is {' '.join(value)} without faults"
        elif other != value if exactly_once else not set(other) >= set(value):
            yield f"{topic}: key {key} is {' '.join(other)}, without faults {' '.join(value)}"
    if exactly_once:
        for key in found.keys() - wanted.keys():
            yield f"{topic}: key {key} is {' '.join(found[key])}, and is not there without faults"


def _names_of_lost_sessions(broker: FakeBroker, changelog: str) -> set[str]:
    """Returns the keys of sessions that were deleted for a merged one which never reached the changelog: the producer
    ended between two requests. Kafka Streams has the same gap at least once (docs/RELIABILITY.md)."""
    lost: set[str] = set()
    deleted: dict[str, list[Window]] = {}
    for record in broker.records(changelog):
        assert record.key is not None
        name, window = record.key[: -_SESSION_KEYS.suffix_bytes].decode(), _SESSION_KEYS.window(record.key)
        if record.value is None:
            deleted.setdefault(name, []).append(window)
        elif any(window.start > it.start or window.end < it.end for it in deleted.pop(name, ())):
            lost.add(name)
    return lost | deleted.keys()


def _is_in_a_larger_session(key: str, value: Tokens, found: dict[str, Tokens]) -> bool:
    """At least once, a record that comes again may join two sessions that had nothing to do with each other."""
    if "@" not in key:
        return False
    of, start, end = _session(key)
    return any(
        name == of and first <= start and last >= end and set(other) >= set(value)
        for (name, first, last), other in ((_session(window), other) for window, other in found.items())
    )


def _session(key: str) -> tuple[str, int, int]:
    name, _, window = key.partition("@")
    start, _, end = window.partition("-")
    return name, int(start), int(end)


def _stream(
    topic: str,
    wanted: Counter[tuple[str, Tokens | None]],
    found: Counter[tuple[str, Tokens | None]],
    exactly_once: bool,
) -> Iterator[str]:
    if exactly_once:
        for record, count in sorted((wanted - found).items(), key=str):
            yield f"{topic}: {record} came {count} times less than without faults"
        for record, count in sorted((found - wanted).items(), key=str):
            yield f"{topic}: {record} came {count} times more than without faults"
        return
    by_key: dict[str, list[set[str]]] = {}
    for key, value in found:
        by_key.setdefault(key, []).append(set(value or ()))
    for key, value in wanted:
        if not any(other >= set(value or ()) for other in by_key.get(key, ())):
            yield f"{topic}: {key} {' '.join(value or ())} is lost"


def _lookups(
    topic: str,
    wanted: dict[tuple[str, str], list[str]],
    found: dict[tuple[str, str], list[str]],
    table: dict[str, list[str]],
) -> Iterator[str]:
    """At least once, the store of a table may be ahead of a stream record that comes again: it meets a later value of
    the table. It never meets an earlier one."""
    for (key, value), met in wanted.items():
        history = ["None", *table.get(key, ())]
        may_meet = {other for earliest in met for other in history[history.index(earliest) :]}
        if may_meet.isdisjoint(found.get((key, value), ())):
            yield f"{topic}: {key} {value} {' '.join(met)} is lost"
