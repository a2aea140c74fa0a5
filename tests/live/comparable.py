"""Rows of changelogs without what may differ between a live application and the driver, and does not count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from penstock.common.serdes import Serdes
from penstock.state.buffers.buffered_change import BufferedChangeCodec
from penstock.state.buffers.change_buffer import ChangeBufferBuilder
from penstock.state.versioned.join_buffer import JoinBufferBuilder
from penstock.state.windowed.deduplication_store import DeduplicationStoreBuilder
from penstock.state.windowed.join_window_store import JoinWindowStoreBuilder
from penstock.topology.physical.topology import internal_topic
from tests.live.bunches import Bunch
from tests.live.comparison import Topics
from tests.live.partitioned_driver import Written

Comparable = Callable[[list[Written]], list[Written]]
"""Makes the rows of one partition of a changelog comparable."""


def changelogs_made_comparable(
    bunch: Bunch, application_id: str, backfilled: bool, transactional: bool = False
) -> dict[str, Comparable]:
    """Returns a function for each changelog whose rows contain something that may differ: it makes them comparable."""
    kinds: list[tuple[type, Comparable]] = [(DeduplicationStoreBuilder, _without_offsets(8, None))]
    if bunch.caching:
        kinds.append((ChangeBufferBuilder, without_old_values))
    if backfilled or transactional:
        kinds += [(kind, _without_offsets(8, 16)) for kind in (ChangeBufferBuilder, JoinBufferBuilder)]
    if backfilled:
        kinds.append((JoinWindowStoreBuilder, numbered_anew))
    found: dict[str, Comparable] = {}
    for name, store in bunch.built.topology.store_builders.items():
        for comparable in (comparable for kind, comparable in kinds if isinstance(store, kind)):
            topic = internal_topic(application_id, f"{name}-changelog")
            found[topic] = _one_after_the_other(found[topic], comparable) if topic in found else comparable
    return found


def _one_after_the_other(first: Comparable, second: Comparable) -> Comparable:
    return lambda rows: second(first(rows))


def _without_offsets(begin: int, end: int | None) -> Comparable:
    """Removes these bytes from values. Offsets differ because records without a key are in any partition of a
    repartition topic, because a backfill writes none, and because the marker of a transaction takes one."""

    def without(rows: list[Written]) -> list[Written]:
        return [
            row if row.value is None else replace(row, value=row.value[:begin] + (row.value[end:] if end else b""))
            for row in rows
        ]

    return without


def without_old_values(rows: list[Written]) -> list[Written]:
    """Returns updates of a suppression's buffer without their old values. The old value is the one that a cache
    upstream has let go of last, which depends on when there was a commit."""
    codec = BufferedChangeCodec("compared", Serdes.bytes())
    found = []
    for row in rows:
        if row.value is not None:
            time, _, _, new, *rest = codec.decode(row.value)
            row = replace(row, value=codec.encode((time, None, None, new, *rest)))
        found.append(row)
    return found


def numbered_anew(rows: list[Written]) -> list[Written]:
    """Returns rows of join windows with new sequence numbers, which count the rows of the same key and time. A backfill
    does not hand over null values, each of which has taken a number."""
    seen: Counter[bytes] = Counter()
    found = []
    for row in rows:
        if row.key is not None and row.value is not None:
            place = row.key[:-4]
            seen[place] += 1
            found.append(replace(row, key=place + seen[place].to_bytes(4)))
    return found


def made_comparable(topics: Topics, comparable: Mapping[str, Comparable]) -> dict[str, list[list[Written]]]:
    """Returns ``topics`` with the rows of the changelogs in ``comparable`` made comparable."""
    changed = {topic: list(map(comparable[topic], topics[topic])) for topic in comparable.keys() & topics.keys()}
    return {**topics, **changed}
