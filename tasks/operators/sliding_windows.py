"""Aggregates in sliding windows.

There is a window for each set of records of a key that are no further apart than the time difference: it ends with a
record, or begins one ms after one. The changes that a new record makes follow from the windows that start from twice
the difference before it to one ms after it.
"""

from __future__ import annotations

from typing import Any

from penstock.common.windows import Window
from penstock.tasks.closures import closure_of
from penstock.tasks.operators.final_results import Closing, close_when_idle, emit_closed
from penstock.tasks.operators.folds import functions_of
from penstock.tasks.operators.updates import forward_windowed_updates
from penstock.tasks.wiring import StreamEdge, Wiring
from penstock.topology.physical.operators.windows import SlidingWindowAggregate

_Found = tuple[Any, int]
"""The aggregate of a window, and the largest timestamp of its records."""


@closure_of(SlidingWindowAggregate)
def _sliding_windows(spec: SlidingWindowAggregate, wiring: Wiring) -> StreamEdge:
    store, context, name = wiring.store, wiring.context, wiring.name
    difference, grace = spec.windows.time_difference_ms, spec.windows.grace_period_ms
    key_bytes, failed = wiring.key_to_bytes(store), wiring.failed_at(store)
    observed = wiring.observed_time()
    emit, before_closing = emit_closed(store, wiring, _closing(difference)) if spec.on_close else (None, None)
    record = _Windows(spec, wiring)
    early, late = record.process_early, record.process
    close_when_idle(store, wiring, observed, emit, grace, reach_ms=difference)

    def run(key: Any, value: Any, timestamp: int) -> None:
        if key is None or value is None:
            context.dropped_records += 1
            return
        if timestamp > observed.ms:
            if before_closing is not None:
                before_closing(timestamp, observed.ms - grace)
            observed.ms = timestamp
        close_time = observed.ms - grace
        if timestamp + difference < close_time:
            context.dropped_records += 1
            return
        try:
            raw = key if key_bytes is None else key_bytes(key)
            if timestamp < difference:
                # As in Kafka Streams, nothing is emitted here.
                early(key, raw, value, timestamp, close_time)
                return
            late(key, raw, value, timestamp, close_time)
        except Exception as error:
            failed(error, name, key, value, timestamp)
            return
        if emit is not None:
            emit(close_time)

    return run


class _Windows:
    """The windows of one node's store, as a record finds and changes them."""

    LEADS_TO = ("at_once",)

    def __init__(self, spec: SlidingWindowAggregate, wiring: Wiring) -> None:
        store = wiring.store
        self.difference = spec.windows.time_difference_ms
        self.context = wiring.context
        self.rows = store.windowed.rows
        self.initial, self.fold = functions_of(spec.fold)
        # Kafka Streams finds in its cache what has expired in the store below.
        self.expired_too = store.buffer.caching
        update = None if spec.on_close else forward_windowed_updates(store, wiring, spec.send_old_values)
        self.at_once = None if store.buffer.caching else update

    def process(self, key: Any, raw: bytes, value: Any, timestamp: int, close_time: int) -> None:
        """Process a record of ``timestamp``: windows that exist come first, the latest start first."""
        difference, time = self.difference, self.rows.schema.time
        left: _Found | None = None
        right: _Found | None = None
        previous: int | None = None
        starts: set[int] = set()
        first = max(0, timestamp - 2 * difference)
        found = self.rows.of_key(raw, first, timestamp + 1, reverse=True, expired_too=self.expired_too)
        for row, (aggregate, newest, _, _) in found:
            start = time(row)
            starts.add(start)
            if start > timestamp:
                continue
            if start + difference < timestamp:
                left, previous = (aggregate, newest), newest
                break
            if start + difference > timestamp:
                right = right or (aggregate, newest)
            self.update(key, raw, value, timestamp, start, aggregate, newest, close_time)
            if start + difference == timestamp:
                if newest >= timestamp:
                    return  # there was a record of this very timestamp: its windows are all there
                previous = newest
        if previous is not None and previous + 1 not in starts and previous + 1 + difference >= timestamp:
            self.begin(key, raw, value, timestamp, previous + 1, close_time)
        if timestamp - difference not in starts:
            overlaps = left is not None and left[1] >= timestamp - difference
            aggregate = left[0] if left is not None and overlaps else self.initial()
            self.update(key, raw, value, timestamp, timestamp - difference, aggregate, timestamp, close_time)
        if timestamp + 1 not in starts and right is not None and right[1] > timestamp:
            self.copy(key, raw, timestamp, right)

    def process_early(self, key: Any, raw: bytes, value: Any, timestamp: int, close_time: int) -> None:
        """Process a record of a time less than one time difference after 0: one window from 0 on replaces all that
        would begin before 0."""
        time = self.rows.schema.time
        combined: _Found | None = None
        right: _Found | None = None
        previous: int | None = None
        starts: set[int] = set()
        found = self.rows.of_key(raw, 0, timestamp + 1, expired_too=self.expired_too)
        for row, (aggregate, newest, _, _) in found:
            start = time(row)
            starts.add(start)
            if start == 0:
                combined = aggregate, newest
                previous = newest if newest < timestamp else None
            elif start <= timestamp:
                right = aggregate, newest
                self.update(key, raw, value, timestamp, start, aggregate, newest, close_time)
        if right is None and combined is not None and combined[1] > timestamp:
            right = combined
        if timestamp + 1 not in starts and right is not None and right[1] > timestamp:
            self.copy(key, raw, timestamp, right)
        if previous is not None and previous + 1 not in starts:
            self.begin(key, raw, value, timestamp, previous + 1, close_time)
        if combined is None:
            self.begin(key, raw, value, timestamp, 0, close_time)
        else:
            self.update(key, raw, value, timestamp, 0, *combined, close_time)

    def begin(self, key: Any, raw: bytes, value: Any, timestamp: int, start: int, close_time: int) -> None:
        """Begin a window that has this record alone."""
        self.update(key, raw, value, timestamp, start, self.initial(), timestamp, close_time)

    def update(
        self,
        key: Any,
        raw: bytes,
        value: Any,
        timestamp: int,
        start: int,
        aggregate: Any,
        newest: int,
        close_time: int,
    ) -> None:
        """Add the record to the window from ``start``; drop it if that takes no more records."""
        if start + self.difference < close_time:
            self.context.dropped_records += 1
            return
        new = self.fold(key, value, aggregate)
        newest = timestamp if aggregate is None else max(timestamp, newest)
        # A deletion has no time of its own: it is logged at the record's.
        self.put(key, raw, start, new, timestamp if new is None else newest, aggregate, newest)

    def copy(self, key: Any, raw: bytes, timestamp: int, right: _Found) -> None:
        """Put the window that begins one ms after the record: it has the later records of one that overlaps it."""
        aggregate, newest = right
        self.put(key, raw, timestamp + 1, aggregate, newest, None, newest)

    def put(self, key: Any, raw: bytes, start: int, new: Any, logged_at: int, old: Any, newest: int) -> None:
        """Put an aggregate and forward it."""
        rows, context = self.rows, self.context
        rows.put(raw, rows.schema.first(start), start, new, logged_at, context.headers, counted=True)
        if self.at_once is not None:
            self.at_once(key, Window(start, start + self.difference), new, old, newest)


def _closing(difference: int) -> Closing:
    """Returns the closing. The end of a window belongs to it: it closes when the close time is past its end."""
    return Closing(
        lambda last: 0 if last < 0 else max(0, last - difference), lambda close_time: close_time - difference - 1
    )
