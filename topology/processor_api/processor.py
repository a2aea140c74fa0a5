"""The Processor API: operators that a user writes as a class. Mirrors ``org.apache.kafka.streams.processor.api``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from typing_extensions import override

from penstock.common.errors import TopologyError
from penstock.common.ids import TaskId
from penstock.common.records import Headers, Record, RecordMetadata
from penstock.common.serdes import Serde
from penstock.common.time import Duration
from penstock.topology.arity import checked_function

KIn = TypeVar("KIn")
VIn = TypeVar("VIn")
KOut = TypeVar("KOut")
VOut = TypeVar("VOut")


class PunctuationType(Enum):
    """The clock that drives a punctuator."""

    STREAM_TIME = "stream-time"
    """The largest timestamp the task has processed: moves only with records."""
    WALL_CLOCK_TIME = "wall-clock-time"
    """The system's clock: moves by itself."""


Punctuator = Callable[[int], object]
"""Called with the current stream time or system time (ms), in the task's thread, between two records."""


class Cancellable(Protocol):
    """A schedule that can be ended."""

    def cancel(self) -> None:
        """End the schedule: no further call is made."""


class ProcessingContext(Protocol):
    """A processor's view of its task. Valid from ``init`` to ``close``, in the task's thread only."""

    @property
    def application_id(self) -> str:
        """``application.id``."""

    @property
    def task_id(self) -> TaskId:
        """The task this processor belongs to."""

    @property
    def key_serde(self) -> Serde[Any] | None:
        """``default.key.serde``, None if there is none."""

    @property
    def value_serde(self) -> Serde[Any] | None:
        """``default.value.serde``, None if there is none."""

    def app_configs(self) -> Mapping[str, Any]:
        """Returns the application's configuration by key, defaults included.

        It has only keys of penstock and of Kafka's clients: give settings of your own processors to their suppliers
        (``functools.partial(Limit, 5)``).
        """

    def app_configs_with_prefix(self, prefix: str) -> Mapping[str, Any]:
        """Returns the entries of :meth:`app_configs` whose key begins with ``prefix``, without it."""

    def schedule(
        self,
        interval: Duration,
        type: PunctuationType,
        punctuator: Punctuator,
        *,
        start_time: datetime | int | None = None,
    ) -> Cancellable:
        """Call ``punctuator`` about every ``interval`` of the given clock.

        STREAM_TIME: first as soon as the task has seen a record, WALL_CLOCK_TIME: first after one interval. Intervals
        that were missed are skipped: there is one call for them, and the next is aligned to the schedule.
        ``start_time`` (ms since the epoch, or a datetime with a time zone) is the time of the first call; if it has
        passed, it only sets the beginning of the intervals (KIP-1146). Of several calls that are due, the one that was
        due first is made first. Schedules end with their task: ``init`` of the next task makes them again.

        Raises ValueError for an interval below 1 ms and for a ``start_time`` that is negative or has no time zone.
        """

    def get_state_store(self, name: str) -> Any:
        """Returns store ``name``. Raises UnknownStateStoreError unless it is connected to this processor, or global.

        A :class:`~penstock.state.views.KeyValueStore`, :class:`~penstock.state.windowed.views.WindowStore`,
        :class:`~penstock.state.windowed.views.SessionStore` or
        :class:`~penstock.state.versioned.views.VersionedKeyValueStore`. Timestamped ones, as that of a named table,
        have values of type :class:`~penstock.state.views.ValueAndTimestamp`. The values that a store returns are not
        copies and must not be changed. Processors that share a store see each other's changes at once. Writing raises
        TopologyError in a global store, and in a read-only store of another processor.
        """

    def commit(self) -> None:
        """Ask for a commit soon; it happens after the current record, not in this call."""

    def record_metadata(self) -> RecordMetadata | None:
        """Returns topic, partition and offset of the current record; None inside a punctuator."""

    def current_stream_time_ms(self) -> int:
        """Returns the largest timestamp that the task has processed, −1 before the first."""

    def current_system_time_ms(self) -> int:
        """Returns the host's clock (ms), the same throughout one batch."""


class ProcessorContext(ProcessingContext, Protocol[KOut, VOut]):
    """The view that a :class:`Processor` has of its task. Mirrors ``ProcessorContext``."""

    def forward(self, record: Record[KOut, VOut], child: str | None = None) -> None:
        """Pass ``record`` to every child in order, or to the one named ``child``; returns when they are done with it.

        It goes depth first: the children of a child are done with it before the next child gets it. Raises
        TopologyError if there is no such child.
        """


class Processor(Generic[KIn, VIn, KOut, VOut]):
    """One instance per task. All methods run in the task's thread, one at a time, records in the task's order."""

    def init(self, context: ProcessorContext[KOut, VOut]) -> None:
        """Called once, after the task's stores are restored and before the first record."""

    def process(self, record: Record[KIn, VIn]) -> None:
        """Called for each record, null keys and values included. May forward any number of records."""
        raise NotImplementedError(f"{type(self).__name__} must define process()")

    def close(self) -> None:
        """Called once when the task is closed; not promised after a crash. Do not close stores."""


class ContextualProcessor(Processor[KIn, VIn, KOut, VOut]):
    """A :class:`Processor` that keeps its context, as ``self.context``. Mirrors ``ContextualProcessor``.

    A subclass with an ``init`` of its own calls ``super().init(context)`` in it.
    """

    context: ProcessorContext[KOut, VOut]
    """The context, from ``init`` on."""

    @override
    def init(self, context: ProcessorContext[KOut, VOut]) -> None:
        self.context = context


ProcessorSupplier = Callable[[], Processor[KIn, VIn, KOut, VOut]]
"""Makes a new processor at each call: an instance that is returned twice is an error."""


TopicNameExtractor = Callable[[Any, Any, "RecordContext"], str]
"""``(key, value, context)`` to the name of the topic that takes the record; the topic must exist."""

StreamPartitioner = Callable[[str, Any, Any, int], "int | Collection[int] | None"]
"""``(topic, key, value, partitions)`` to a partition, or None for Kafka's default (murmur2 of the key's bytes).

If it returns a set of partitions, each gets the record; if the set is empty, the record is dropped and counted in
``dropped-records-total`` (KIP-837). Mirrors ``StreamPartitioner.partitions``.
"""


@dataclass(frozen=True)
class RecordContext:
    """The metadata of a record, for a topic name extractor. Topic, partition and offset are None for records that a
    punctuator or the flush of a cache forwards. Mirrors ``RecordContext``.
    """

    topic: str | None
    partition: int | None
    offset: int | None
    timestamp: int
    headers: Headers


def checked_supplier(supplier: ProcessorSupplier[Any, Any, Any, Any], call: str = "process") -> None:
    """Raises TopologyError unless ``supplier``, given to ``call``, makes a new processor, with the right methods, at
    each call."""
    checked_supplier_of(Processor, supplier, call)


def checked_supplier_of(wanted: type[Any], supplier: Any, call: str) -> None:
    """Like :func:`checked_supplier`, for processors of the class ``wanted``."""
    if isinstance(supplier, wanted):
        raise TopologyError(
            f"{call}: give a supplier that makes processors, such as the class {type(supplier).__name__}, "
            "not a processor: each task needs one of its own"
        )
    checked_function(supplier, f"{call}: supplier")
    first, second = supplier(), supplier()
    if not isinstance(first, wanted):
        raise TopologyError(
            f"{call}: the supplier must make a {wanted.__name__}, not {first!r} ({type(first).__name__})"
        )
    if first is second:
        raise TopologyError(
            f"{call}: the supplier returned the same processor twice; it must make a new one at each call"
        )
    kind = type(first).__name__
    if type(first).process is wanted.process and "process" not in vars(first):
        raise TopologyError(f"{call}: {kind} must define process(record): it has none, and nothing would be done")
    checked_function(first.init, f"{call}: {kind}.init", "context")
    checked_function(first.process, f"{call}: {kind}.process", "record")
    checked_function(first.close, f"{call}: {kind}.close")
