"""The counters of a task."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import add
from typing import NamedTuple


class HandlerCounts(NamedTuple):
    """Number of records, or results, that each exception handler has dropped in a task, and of dead letters."""

    deserialization: int = 0
    processing: int = 0
    production: int = 0
    dead_letters: int = 0

    def plus(self, other: HandlerCounts) -> HandlerCounts:
        """Returns the sums of both."""
        return HandlerCounts(*map(add, self, other))


@dataclass(frozen=True)
class TaskMetrics:
    """Counters since the task was made, under Kafka Streams' names."""

    process_total: int
    dropped_records_total: int
    stream_time_ms: int
    punctuate_total: int = 0
    enforced_processing_total: int = field(default=0, compare=False)
    """Number of times that an empty partition was waited for in vain: it depends on how often the host calls."""
    handled: HandlerCounts = field(default=HandlerCounts(), compare=False)

    @property
    def dropped_by_handlers(self) -> int:
        """Number of the dropped records that an exception handler dropped. The handler decides how to report them."""
        return self.handled.deserialization + self.handled.processing + self.handled.production

    @property
    def dead_letters(self) -> int:
        """Number of dead letters that were written."""
        return self.handled.dead_letters
