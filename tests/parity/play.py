"""Play parity cases on penstock: ``python -m tests.parity.play < cases.jsonl > actual.jsonl``.

Reads name, config, topology and input of each case, one JSON object a line, and prints them with what penstock made of
them: output, internal, stores, description, metrics. For a case that it cannot play it prints
``{"name": …, "error": …}`` and continues. ``docs/PARITY.md`` explains the format.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from penstock.common.records import SENT_NOW
from penstock.testing.driver_topics import TestRecord
from penstock.testing.topology_test_driver import TopologyTestDriver
from penstock.topology.physical.topology import Topology
from tests.parity.build import SERDES, Built, build

APPLICATION_ID = "parity"


def play(
    case: dict[str, Any],
    new_driver: Callable[[Topology, Mapping[str, Any]], TopologyTestDriver] = TopologyTestDriver,
    before: Callable[[TopologyTestDriver, int], None] = lambda driver, number: None,
) -> dict[str, Any]:
    """Returns the case with its results filled in. ``before`` is called before each record, with its number from 0."""
    given = {field: case[field] for field in ("name", "config", "topology", "input")}
    built = build(given)
    config = {
        **case["config"],
        "application.id": APPLICATION_ID,
        "default.key.serde": SERDES["string"],
        "default.value.serde": SERDES["string"],
    }
    with new_driver(built.topology, config) as driver:
        for number, record in enumerate(case["input"]):
            before(driver, number)
            pipe(driver, built, record)
        return {
            **given,
            "description": built.topology.describe(),
            "output": _output(driver, built),
            "internal": _internal(driver),
            "stores": {name: _store(driver, name) for name in built.stores},
            "metrics": {"dropped-records-total": float(driver.metrics().dropped_records_total)},
        }


def pipe(driver: TopologyTestDriver, built: Built, record: dict[str, Any]) -> None:
    """Pipes a record, or advances the wall clock."""
    if "advance_wall_ms" in record:
        driver.advance_wall_clock_time(record["advance_wall_ms"])
        return
    topic = record["topic"]
    key_type, value_type = built.inputs[topic]
    key, value = record["key"], record["value"]
    driver.pipe(
        topic,
        None if key is None else SERDES[key_type].serialize(key),
        None if value is None else SERDES[value_type].serialize(value),
        record["ts"],
        [(name, text.encode()) for name, text in record.get("headers", {}).items()],
    )


def _output(driver: TopologyTestDriver, built: Built) -> dict[str, Any]:
    output: dict[str, Any] = {}
    for topic, key_type, value_type in built.sinks:
        if topic not in output:
            records = driver.create_output_topic(topic, SERDES[key_type], SERDES[value_type]).read_records_to_list()
            output[topic] = [_shown(record) for record in records]
    return output


def _shown(record: TestRecord[Any, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {"key": record.key, "value": record.value, "ts": record.timestamp}
    if record.headers:
        shown["headers"] = {name: (data or b"").decode() for name, data in record.headers}
    return shown


def _internal(driver: TopologyTestDriver) -> dict[str, Any]:
    internal: dict[str, Any] = {}
    for topic in sorted(driver.produced_topic_names()):
        if topic.startswith(f"{APPLICATION_ID}-"):
            records = driver.create_output_topic(topic, SERDES["bytes"], SERDES["bytes"]).read_records_to_list()
            internal[topic] = [[_hex(record.key), _hex(record.value), _time(record.timestamp)] for record in records]
    return internal


def _time(timestamp: int) -> int | None:
    return None if timestamp == SENT_NOW else timestamp


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _store(driver: TopologyTestDriver, name: str) -> list[list[Any]]:
    return [[key, value] for key, value in driver.get_key_value_store(name).all()]


def answer(line: bytes) -> bytes:
    """Returns what is printed for one line: the case with its results, or its name and why it cannot be played."""
    name = None
    try:
        case = orjson.loads(line)
        name = case.get("name") if isinstance(case, dict) else None
        return orjson.dumps(play(case))
    except Exception as error:  # whatever it is, the cases that follow are answered
        return orjson.dumps({"name": name, "error": f"{type(error).__name__}: {error}"})


def main(lines: Iterable[bytes]) -> None:
    """Answer each line."""
    for line in lines:
        if line.strip():
            sys.stdout.buffer.write(answer(line) + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m tests.parity.play", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    main(sys.stdin.buffer)
