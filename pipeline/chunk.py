"""Records of several partitions that are due next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.common.records import RecordBatch


class Chunk(NamedTuple):
    """The next records of tasks: of each partition those that are due, in one list of batches. ``order`` has for each
    record of the chunk the index of its partition, in the order in which the records are due.

    ``due`` and ``places``, of a pass over a cycle: for each record of ``order`` its time in the order of the cycle, and
    its place among the records of that time.
    """

    partitions: Sequence[Sequence[RecordBatch]]
    order: Sequence[int]
    due: Sequence[int] = ()
    places: Sequence[int] = ()
