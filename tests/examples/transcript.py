"""Plays the topology of an example, and writes down what goes in and what comes out.

The docs show these transcripts. ``WRITE=1`` in the environment writes them again: look at the difference, then commit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

import penstock as ps

OUTPUTS = Path(__file__).parents[2] / "examples" / "outputs"
MIDNIGHT = datetime(2026, 11, 27, tzinfo=UTC)


@dataclass(frozen=True)
class Given:
    """A record of ``topic``, at a ``time`` of the day: ``09:30`` or ``09:30:15``."""

    topic: str
    time: str
    key: Any
    value: Any


Topics = dict[str, tuple[ps.Serde[Any], ps.Serde[Any]]]
"""The serdes of keys and of values, by topic."""


def transcript(
    app: ps.KafkaStreams,
    records: Sequence[Given],
    inputs: Topics,
    outputs: Topics,
    config: Mapping[str, Any] | None = None,
) -> str:
    """Returns a line for each record that goes in, each followed by the results that come out at once."""
    lines: list[str] = []
    handlers = {key: value for key, value in app.config.entries().items() if "exception" in key or "errors" in key}
    settings = {"application.id": app.application_id, **handlers, **(config or {})}
    with ps.TopologyTestDriver(app.topology, settings) as driver:
        into = {topic: driver.create_input_topic(topic, *serdes) for topic, serdes in inputs.items()}
        out = {topic: driver.create_output_topic(topic, *serdes) for topic, serdes in outputs.items()}
        for record in records:
            into[record.topic].pipe_input(record.key, record.value, _at(record.time))
            lines.append(f"{record.time:9}{record.topic}  {_shown(record.key)}  {_shown(record.value)}")
            lines += [
                f"{'':9}  -> {topic}  {_shown(result.key)}  {_shown(result.value)}"
                for topic, results in out.items()
                for result in results.read_records_to_list()
            ]
    return "\n".join(lines) + "\n"


def _at(time: str) -> datetime:
    hours, minutes, *seconds = map(int, time.split(":"))
    return MIDNIGHT + timedelta(hours=hours, minutes=minutes, seconds=seconds[0] if seconds else 0)


def _shown(part: Any) -> str:
    return part if isinstance(part, str) else msgspec.json.encode(part).decode()


def same_as_kept(name: str, played: str) -> bool:
    """Returns True if ``played`` is the kept transcript of the example ``name``."""
    kept = OUTPUTS / f"{name}.txt"
    if os.environ.get("WRITE"):
        kept.write_text(played)
    assert played == kept.read_text()
    return True
