"""The program under test. Records are numbered per key, so the truth about every result is known without a second run.

::

    numbers ──> Stamp ──> repartition ──> count [counts] ──> to_stream ──> counts-out
                                     └──> follow [tallies]

``Stamp`` writes beside each number in which life of its task the record was processed. ``follow`` keeps in its state
which number comes next: a state that is older than the offsets it was committed with shows as a gap.
"""

from __future__ import annotations

import uuid
from typing import NamedTuple, TypedDict

import penstock as ps

INPUT = "numbers"
OUTPUT = "counts-out"
COUNTS = "counts"
TALLIES = "tallies"
_REPARTITION = "stamped"
PARTITIONS = 4


def repartition_topic(application_id: str) -> str:
    """Where the stamped numbers stand."""
    return f"{application_id}-{_REPARTITION}-repartition"


def changelog_topic(application_id: str, store: str) -> str:
    """Where a store's changes stand."""
    return f"{application_id}-{store}-changelog"


class Stamped(NamedTuple):
    """The ``number``-th record of its key, processed in this ``attempt``: one life of one task."""

    number: int
    attempt: str

    def __str__(self) -> str:
        return f"{self.number} {self.attempt}"

    @classmethod
    def of(cls, text: str) -> Stamped:
        """The contrary of ``str``."""
        number, attempt = text.split(" ")
        return cls(int(number), attempt)


class Tally(TypedDict):
    """What the state knows of a key: the number that comes next, how many came again, how many were missing."""

    next: int
    repeats: int
    gaps: int


class Stamp(ps.Processor[str, int, str, str]):
    """Tells the lives of a task apart: a task that is opened anew has a new instance."""

    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        """Begin a life."""
        self._context = context
        self._attempt = uuid.uuid4().hex[:12]

    def process(self, record: ps.Record[str, int]) -> None:
        """Stamp one record."""
        self._context.forward(record.with_value(str(Stamped(record.value, self._attempt))))


def follow(value: str, tally: Tally) -> Tally:
    """Count a number in."""
    number = Stamped.of(value).number
    return {
        "next": max(tally["next"], number + 1),
        "repeats": tally["repeats"] + (number < tally["next"]),
        "gaps": tally["gaps"] + max(0, number - tally["next"]),
    }


def topology() -> ps.Topology:
    """The program."""
    string, long, json = ps.Serdes.string(), ps.Serdes.long(), ps.Serdes.json()
    builder = ps.StreamsBuilder()
    grouped = (
        builder.stream(INPUT, ps.Consumed.with_(string, long))
        .process(Stamp)
        .repartition(ps.Repartitioned.with_(string, string).with_name(_REPARTITION))
        .group_by_key(ps.Grouped.with_(string, string))
    )
    counts = grouped.count(ps.Materialized.as_(COUNTS))
    counts.to_stream().to(OUTPUT, ps.Produced.with_(string, long))
    grouped.aggregate(
        lambda: Tally(next=0, repeats=0, gaps=0),
        lambda _, value, tally: follow(value, tally),
        ps.Materialized.as_(TALLIES).with_value_serde(json),
    )
    return builder.build()
