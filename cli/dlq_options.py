"""The options of ``penstock dlq``: those that select letters, and the places of letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from msgspec.structs import replace

from penstock.cluster.dead_letters.letters import Filter
from penstock.common.errors import ConfigError
from penstock.common.ids import TopicPartition
from penstock.common.written_times import WithoutZone, ms_of_iso

DeadLetterTopic = Annotated[str, typer.Argument(metavar="TOPIC", help="The dead letter topic")]
Exceptions = Annotated[
    list[str] | None,
    typer.Option(
        "--exception", metavar="CLASS", help="Only errors of this class, with or without its module; may be repeated"
    ),
]
Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC", help="Only records that came from this topic; may be repeated"),
]
Partitions = Annotated[
    list[int] | None,
    typer.Option("--partition", help="Only records that came from this partition; may be repeated", min=0),
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Only records of this time or later: ms, or ISO 8601 (local unless it names its zone)"
    ),
]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Only records before this time")]
Contains = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="Only letters with this text in the message, stack trace, key or value"),
]
Places = Annotated[list[str] | None, typer.Argument(metavar="PARTITION@OFFSET", help="Only these letters")]
Limit = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Maximum number of letters")]


def filter_of(
    exceptions: list[str] | None,
    topics: list[str] | None,
    partitions: list[int] | None,
    since: str | None,
    until: str | None,
    contains: str | None,
) -> Filter:
    """Returns the filter that the options make. Raises ConfigError."""
    # Sorted, so that the order of the options makes no other replay.
    return Filter(
        tuple(sorted(set(exceptions or ()))),
        tuple(sorted(set(topics or ()))),
        tuple(sorted(set(partitions or ()))),
        None if since is None else _ms("--since", since),
        None if until is None else _ms("--until", until),
        contains or None,
    )


def _ms(option: str, text: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return ms_of_iso(text, WithoutZone.LOCAL)
    except ValueError:
        raise ConfigError(f"{option} {text!r} is neither ms since 1970 nor a time such as 2026-11-21T09:30") from None


def with_places(selected: Filter, texts: Sequence[str], partitions: Sequence[TopicPartition]) -> Filter:
    """Returns the filter of those letters at the places of :func:`places_of` that ``selected`` selects."""
    found = sorted({f"{at.partition}@{offset}" for at, offset in places_of(texts, partitions)})
    return replace(selected, places=tuple(found))


def places_of(texts: Sequence[str], partitions: Sequence[TopicPartition]) -> list[tuple[TopicPartition, int]]:
    """Returns the places that texts of the form ``PARTITION@OFFSET`` name. Raises ConfigError."""
    places = []
    for text in texts:
        partition, at, offset = text.partition("@")
        if not at or not (partition + offset).isascii() or not partition.isdigit() or not offset.isdigit():
            raise ConfigError(f"{text!r} is not PARTITION@OFFSET, such as 0@12 ('penstock dlq list' shows examples)")
        if int(partition) >= len(partitions):
            topic = partitions[0].topic
            raise ConfigError(f"{text!r}: topic {topic!r} has the partitions 0 to {len(partitions) - 1}")
        places.append((partitions[int(partition)], int(offset)))
    return places
