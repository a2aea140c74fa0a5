"""The buffer of ``suppress``: updates of a table that wait, by key and in the order of their times.

It lies in memory and is restored from its changelog. At each commit the changelog gets the last update of each key that
was put since, or a deletion for one that was taken out, in Kafka Streams' form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any, ClassVar, TypeVar

from typing_extensions import override

from penstock.common.errors import SerializationError
from penstock.common.ids import TopicPartition
from penstock.common.java_collections import bytes_hash, slots_for
from penstock.common.records import SENT_NOW, Headers
from penstock.common.serdes import why_refused
from penstock.state.buffers.buffered_change import (
    CHANGELOG_HEADERS,
    Buffered,
    BufferedChangeCodec,
    counted_bytes,
    time_of,
)
from penstock.state.builders import AnyStoreBuilder, StoreBuilder
from penstock.state.contracts import CommitBatch, StateStore, StateStoreContext
from penstock.state.rows.round_trip import RoundTripCheck
from penstock.state.write_buffer.in_steps import sort_in_steps
from penstock.state.write_buffer.sizes import SAMPLE_EVERY, entry_bytes
from penstock.state.write_buffer.write_buffer import FLUSH_STEP_ENTRIES

K = TypeVar("K")
V = TypeVar("V")

# Bytes that a waiting update takes in addition to an entry of a write buffer: a longer tuple, and its place in the
# order.
_ORDER_BYTES = 200
# A key and its update as bytes, in a dictionary, and its place in the order.
_PACKED_OVERHEAD_BYTES = 350


@dataclass(frozen=True)
class ChangeBufferBuilder(StoreBuilder[K, V]):
    """Mirrors ``InMemoryTimeOrderedKeyValueChangeBuffer.Builder``: always in memory, never cached."""

    kind: ClassVar[str] = "suppression buffer"
    changelog_headers: ClassVar[Headers] = CHANGELOG_HEADERS
    persistent: bool = False

    @override
    def open(self, context: StateStoreContext) -> StateStore:
        return ChangeBuffer(self, context)


class ChangeBuffer(StateStore):
    """The updates that wait in one task. Keys are bytes.

    An operator puts updates, looks at ``order``, a heap of (time, key) that is always the same object, and takes out
    the first. A waiting update is an object, or, after a restore and if memory is scarce, packed: its bytes.
    """

    takes_changes_while_committed = True
    flushed_last = True
    lies_in_memory = True

    def __init__(self, builder: AnyStoreBuilder, context: StateStoreContext) -> None:
        if builder.key_serde is None or builder.value_serde is None:
            raise ValueError(f"store {builder.name} was not given its serdes")
        super().__init__(builder.name, context)
        self.order: list[tuple[int, bytes]] = []
        self.counted_bytes = 0
        """Number of bytes that Kafka Streams counts for all that waits, once :meth:`count_bytes` was called."""
        self._objects: dict[bytes, Buffered] = {}
        self._packed: dict[bytes, bytes] = {}
        self._in_order = True
        self._counting = False
        self._counts: dict[bytes, int] = {}
        self._dirty: dict[bytes, Buffered | bytes | None] = {}
        self._frozen: dict[bytes, Buffered | bytes | None] = {}
        self._value_serde = builder.value_serde
        self._show_key = builder.key_serde.deserialize
        self._codec = BufferedChangeCodec(builder.name, builder.value_serde)
        self._round_trip = RoundTripCheck(builder.name, "value", builder.value_serde)
        self._flushed = 0
        # Kafka Streams keeps the keys that it has to log in a HashSet, whose order the changelog shows.
        self._slots = slots_for(0)
        self._object_bytes = 0.0
        self._packed_bytes = 0
        self._flushing = 0

    @override
    def view(self) -> ChangeBuffer:
        return self

    def __len__(self) -> int:
        return len(self._objects) + len(self._packed)

    # ---- what the operator does ----

    def put(
        self,
        key: bytes,
        time: int,
        old: Any,
        new: Any,
        timestamp: int,
        headers: Headers | None,
        source: TopicPartition | None,
        offset: int,
        key_object: Any,
    ) -> None:
        """Add an update. It takes the place, and the time, of one of the same key that waits."""
        if not self._in_order:
            self.arrange()
        waits = self._objects.get(key) or self.find(key)
        if waits is None:
            heappush(self.order, (time, key))
            prior = old
        else:
            time, prior = waits[0], waits[1]
        buffered = (time, prior, old, new, timestamp, headers, source, offset, key_object)
        self._dirty[key] = self._counted(key, buffered) if self._counting else buffered
        self._objects[key] = buffered

    def find(self, key: bytes) -> Buffered | None:
        """Returns the update of ``key`` that waits; None if there is none."""
        found = self._objects.get(key)
        if found is None and key in self._packed:
            data = self._packed.pop(key)
            self._packed_bytes -= len(data)
            found = self._objects[key] = self._codec.decode(data)
        return found

    def remove_first(self) -> None:
        """Take out the first update in order."""
        key = heappop(self.order)[1]
        if self._counting:
            self.counted_bytes -= self._counts.pop(key)
        if self._objects.pop(key, None) is None:
            self._packed_bytes -= len(self._packed.pop(key))
        self._dirty[key] = None

    def count_bytes(self) -> None:
        """Keep ``counted_bytes`` up to date from now on."""
        self._counting = True
        self._counts = {key: counted_bytes(key, self._bytes_of(key)) for key in (*self._objects, *self._packed)}
        self.counted_bytes = sum(self._counts.values())

    def _counted(self, key: bytes, buffered: Buffered) -> bytes:
        """Count an update that comes in. Returns its bytes, which must be made for that."""
        data = self._encoded(key, buffered)
        count = counted_bytes(key, data)
        self.counted_bytes += count - self._counts.get(key, 0)
        self._counts[key] = count
        return data

    def ensure_order(self) -> None:
        """Make ``order`` complete, even before an update comes in."""
        if not self._in_order:
            self.arrange()

    def arrange(self) -> None:
        """Put what was restored in order. The first update that comes in after a restore calls this."""
        self.order[:] = [(time_of(data), key) for key, data in self._packed.items()]
        self.order += [(waits[0], key) for key, waits in self._objects.items()]
        heapify(self.order)
        self._in_order = True
        if self._counting:
            self.count_bytes()

    # ---- bytes ----

    def _encoded(self, key: bytes, buffered: Buffered) -> bytes:
        try:
            return self._codec.encode(buffered)
        except Exception as error:
            raise self._refused(key, buffered, error) from error

    def _refused(self, key: bytes, buffered: Buffered, error: Exception) -> SerializationError:
        for value in (buffered[1], buffered[2], buffered[3]):
            try:
                if value is not None:
                    self._value_serde.serialize(value)
            except Exception:  # that one
                break
        why = why_refused(self._value_serde, value, error)
        return SerializationError(
            f"store {self.name}: the value of key {self._show_key(key)!r} cannot be serialised: {why}. Give the table "
            "that is suppressed the serde of its values (Materialized)"
        )

    def _bytes_of(self, key: bytes) -> bytes:
        return self._packed.get(key) or self._encoded(key, self._objects[key])

    def _pack(self, key: bytes, data: bytes) -> None:
        self._packed_bytes += len(data) - len(self._packed.get(key, b""))
        self._packed[key] = data

    # ---- commit ----

    @property
    @override
    def has_changes(self) -> bool:
        return bool(self._dirty)

    @override
    def freeze(self) -> None:
        self._frozen, self._dirty = self._dirty, {}

    @property
    @override
    def logs_when_flushed(self) -> bool:
        return True

    @override
    def flush(self, batch: CommitBatch) -> Iterator[None]:
        if not self._frozen:
            self.freeze()
        changes, self._frozen = self._frozen, {}
        self._flushing = len(changes)
        log = self.context.log
        if log is None:
            return
        self._slots = slots_for(len(changes), self._slots)
        last = self._slots - 1
        keys = list(changes)
        yield from sort_in_steps(keys, lambda key: bytes_hash(key) & last)
        for begin in range(0, len(keys), FLUSH_STEP_ENTRIES):
            for key in keys[begin : begin + FLUSH_STEP_ENTRIES]:
                waits = changes[key]
                data = waits if waits is None or isinstance(waits, bytes) else self._flushed_bytes(key, waits)
                log(key, data, SENT_NOW)
            yield

    def _flushed_bytes(self, key: bytes, buffered: Buffered) -> bytes:
        data = self._encoded(key, buffered)
        self._flushed = number = self._flushed + 1
        if 0 < self._round_trip.next <= number and buffered[3] is not None:
            self._round_trip.check(buffered[3], number)
        if number % SAMPLE_EVERY == 1:
            self._sample(key, buffered, len(data))
        return data

    @override
    def batch_written(self) -> None:
        self._flushing = 0

    @override
    def restore(
        self, batch: CommitBatch, keys: Sequence[bytes], values: Sequence[bytes | None], timestamps: Sequence[int]
    ) -> None:
        # There are no rows: what waits is only in memory, in whatever task this store is used.
        self.forget_objects()
        for key, data in zip(keys, values, strict=True):
            if data is not None:
                self._pack(key, data)
            elif before := self._packed.pop(key, None):
                self._packed_bytes -= len(before)
        self._in_order = False

    @override
    def changelog_record(self, key: bytes) -> tuple[bytes | None, int]:
        return (self._bytes_of(key) if key in self._objects or key in self._packed else None), SENT_NOW

    @override
    def forget_objects(self) -> None:
        for key, buffered in self._objects.items():
            self._pack(key, self._encoded(key, buffered))
        self._objects.clear()

    @override
    def wiped(self) -> None:
        self._objects.clear()
        self._packed.clear()
        self._packed_bytes = self.counted_bytes = 0
        self._counts.clear()
        self.order.clear()

    @override
    def figures(self) -> Mapping[str, float]:
        size = self.counted_bytes if self._counting else self.resident_bytes()
        return {"suppression-buffer-count": len(self), "suppression-buffer-size": size}

    # ---- memory ----

    def _sample(self, key: bytes, buffered: Buffered, data_bytes: int) -> None:
        size = entry_bytes(key, buffered[1:4], data_bytes) + _ORDER_BYTES
        self._object_bytes = size if not self._object_bytes else self._object_bytes + (size - self._object_bytes) / 8

    def _mean(self) -> float:
        if not self._object_bytes and self._objects:
            key, buffered = next(iter(self._objects.items()))
            self._sample(key, buffered, 0)
        return self._object_bytes

    @override
    def resident_bytes(self) -> float:
        packed = self._packed_bytes + len(self._packed) * _PACKED_OVERHEAD_BYTES
        return len(self._objects) * self._mean() + packed

    @override
    def dirty_resident_bytes(self) -> float:
        return len(self._dirty) * self._mean()

    @override
    def flushed_resident_bytes(self) -> float:
        return self._flushing * self._mean()

    @override
    def drop_unused(self) -> bool:
        committed = [item for item in self._objects.items() if item[0] not in self._dirty]
        for key, buffered in committed:
            self._pack(key, self._encoded(key, buffered))
            del self._objects[key]
        return bool(committed)
