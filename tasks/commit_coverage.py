"""The parts of the changelogs that a commit covers, written in the metadata of its offsets.

With ``at_least_once``, a changelog has more than its task has committed: after a crash those records are processed
again. A store that has applied what they wrote, and has expired rows by their times, cannot be taken back to the
commit. So a standby must not pass the commit, and the commit states its offsets in the changelogs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.common.ids import CommittedOffset, Offsets, TaskId
from penstock.common.log import logger
from penstock.tasks.listed_offsets import decode_listed, encode_listed
from penstock.tasks.offsets import (
    LISTED,
    LOGGED,
    decode_partition_time,
    decode_remembered,
    encode_partition_time,
    fitting,
    short_name,
)


def covering(offsets: Offsets, logged: Mapping[str, int], stores: Iterable[str]) -> tuple[Offsets, int]:
    """Returns ``offsets`` (not empty) with, in the metadata of one of them, the offset after the last record of each
    changelog that belongs to their commit; and the number of stores for which there was no room.

    ``logged``: these offsets by store. ``stores``: all stores of the task that have a changelog of their own.
    """
    carrier = min(offsets)
    offset, metadata = offsets[carrier]
    times = decode_remembered(metadata)
    kept, left_out = fitting(times | {store + LOGGED: each for store, each in logged.items()})
    if any(name.endswith(LOGGED) for name in left_out):
        kept, left_out = fitting(times | encode_listed(logged, stores))
    text = encode_partition_time(decode_partition_time(metadata), kept)
    uncovered = len(logged) if any(name.endswith(LISTED) for name in left_out) else 0
    return {**offsets, carrier: CommittedOffset(offset, text)}, uncovered


def covered(offsets: Iterable[CommittedOffset], stores: Iterable[str]) -> dict[str, int]:
    """Returns, as far as a commit states it, the offset after the last record of each changelog that it covers.

    ``stores``: all stores of the task that have a changelog of their own, as for :func:`covering`.
    """
    wanted = list(stores)
    found = [decode_remembered(offset.metadata) for offset in offsets]
    listed = [decode_listed(each, wanted) for each in found]
    reported: dict[str, int] = {}
    for store in wanted:
        ends = [each[name] for name in _names(store) for each in found if name in each]
        ends += [each[store] for each in listed if store in each]
        if ends:
            reported[store] = max(ends)
    return reported


def without_coverage(committed: CommittedOffset, stores: Iterable[str]) -> CommittedOffset:
    """Returns ``committed`` as it was before :func:`covering`, to be compared with what a task would commit."""
    remembered = decode_remembered(committed.metadata)
    ours = {name for store in stores for name in _names(store)}
    others = {name: ms for name, ms in remembered.items() if name not in ours and not name.endswith(LISTED)}
    if len(others) == len(remembered):
        return committed
    text = encode_partition_time(decode_partition_time(committed.metadata), others)
    return CommittedOffset(committed.offset, text)


def _names(store: str) -> tuple[str, str]:
    return store + LOGGED, short_name(store + LOGGED)


def warn_not_covered(task_id: TaskId, count: int) -> None:
    """Warn that :func:`covering` had no room for ``count`` stores."""
    logger(__name__).warning(
        "the metadata of committed offsets has no room for the offsets of all changelogs: standbys of this task are "
        "not kept up to date, and when the task moves, its stores are restored without a warm-up. Give operators "
        "shorter names, or split the sub-topology with repartition()",
        task=str(task_id),
        stores=count,
    )
