"""The counters of a task."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class TaskMetrics:
    """Counters since the task was made, under Kafka Streams' names."""

    process_total: int
    dropped_records_total: int
    stream_time_ms: int
    punctuate_total: int = 0
    enforced_processing_total: int = field(default=0, compare=False)
    """Number of times that an empty partition was waited for in vain: it depends on how often the host calls."""
    dropped_by_handlers: int = field(default=0, compare=False)
    """Number of the dropped records that an exception handler dropped, which decides how to report them."""
    dead_letters: int = field(default=0, compare=False)
    """Number of dead letters that were written."""
