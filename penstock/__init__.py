"""penstock: Kafka Streams for Python, on Ray.

The names below are the whole public surface. Names that need Ray (:class:`KafkaStreams`, :func:`run`) are imported when
they are first used, so that a Spark executor or a test of a topology needs no Ray.
"""

from __future__ import annotations

import penstock.common.interrupted  # noqa: F401  # before all that takes its time, typing included

# isort: split
from importlib import import_module
from typing import TYPE_CHECKING

from penstock.common.errors import (
    ApplicationStateError,
    ArchiveError,
    ArchiveGapError,
    BrokerUnreachableError,
    BufferFullError,
    CallTimeoutError,
    ConfigError,
    DeserializationError,
    InternalTopicError,
    InvalidTimestampError,
    KafkaRefusedError,
    LocalBrokerError,
    MissingTopicError,
    NotUpToBoundError,
    ObjectExistsError,
    ObjectMissingError,
    ObjectStoreError,
    PartitionerMismatchError,
    PositionError,
    ProcessingError,
    ProductionError,
    RecordError,
    RecordRefusedError,
    RetriableError,
    RuleBrokenError,
    SerializationError,
    StateStoreCorruptError,
    StateStoreDiskError,
    StateStoreError,
    StateStoreLockedError,
    StreamsError,
    TaskNotReadyError,
    TopologyError,
    UnknownQueryError,
    UnknownStateStoreError,
)
from penstock.common.extractors import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    TimestampExtractor,
    UsePartitionTimeOnInvalidTimestamp,
    WallclockTimestampExtractor,
)
from penstock.common.handlers import (
    DefaultProductionExceptionHandler,
    DeserializationExceptionHandler,
    ErrorHandlerContext,
    LogAndContinue,
    LogAndFail,
    ProcessingExceptionHandler,
    ProductionExceptionHandler,
    Response,
    Result,
    SerializationExceptionOrigin,
    UncaughtExceptionHandler,
    UncaughtExceptionResponse,
)
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.offset_resets import AutoOffsetReset
from penstock.common.position import Position, PositionBound
from penstock.common.records import Headers, ProducerRecord, Record, RecordMetadata
from penstock.common.restore_listener import StateRestoreListener
from penstock.common.serdes import Serde
from penstock.common.standby_listener import StandbyUpdateListener, SuspendReason
from penstock.common.windowed_serdes import WindowedSerdes
from penstock.common.windows import Window, Windowed
from penstock.registry.generic_record import GenericRecord
from penstock.registry.mock import MockSchemaRegistry
from penstock.registry.serdes import Serdes
from penstock.state.builders import StoreBuilder
from penstock.state.contracts import (
    CommitBatch,
    CommittedStore,
    StateStore,
    StateStoreContext,
    StoreInFolder,
    TaskStores,
)
from penstock.state.entries import StoreEntry
from penstock.state.queries import (
    CountQuery,
    KeyQuery,
    KeysQuery,
    PrefixQuery,
    Query,
    QueryRow,
    RangeQuery,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
)
from penstock.state.stores import Stores
from penstock.state.versioned.queries import MultiVersionedKeyQuery, VersionedKeyQuery, VersionEntry
from penstock.state.versioned.views import VersionedKeyValueStore, VersionedRecord
from penstock.state.views import KeyValueStore, ValueAndTimestamp
from penstock.state.windowed.deduplication_store import FirstSeen
from penstock.state.windowed.queries import (
    SessionQuery,
    SessionRangeQuery,
    WindowedEntry,
    WindowKeyQuery,
    WindowRangeQuery,
)
from penstock.state.windowed.views import ReadOnlySessionStore, ReadOnlyWindowStore, SessionStore, WindowStore
from penstock.state.with_headers.views import AggregationWithHeaders, ValueTimestampHeaders
from penstock.topology.dsl.branched import Branched, BranchedKStream
from penstock.topology.dsl.cogrouped_kstream import CogroupedKStream
from penstock.topology.dsl.global_ktable import GlobalKTable
from penstock.topology.dsl.kgrouped_stream import KGroupedStream
from penstock.topology.dsl.kgrouped_table import KGroupedTable
from penstock.topology.dsl.kstream import KStream
from penstock.topology.dsl.ktable import KTable
from penstock.topology.dsl.session_windowed_kstream import SessionWindowedKStream
from penstock.topology.dsl.streams_builder import StreamsBuilder
from penstock.topology.dsl.time_windowed_kstream import TimeWindowedKStream
from penstock.topology.dsl.topology import Topology
from penstock.topology.dsl.windowed_cogrouped_kstream import (
    SessionWindowedCogroupedKStream,
    TimeWindowedCogroupedKStream,
)
from penstock.topology.options.calls import Breaker, Cache, CallOrder, Calls, Retry
from penstock.topology.options.deduplicated import Deduplicated
from penstock.topology.options.join_windows import JoinWindows
from penstock.topology.options.materialized import Materialized, StoreType
from penstock.topology.options.options import Consumed, Grouped, Joined, Named, Produced, Repartitioned
from penstock.topology.options.printed import Printed
from penstock.topology.options.session_windows import SessionWindows
from penstock.topology.options.stream_joined import StreamJoined
from penstock.topology.options.suppressed import BufferConfig, EagerBufferConfig, StrictBufferConfig, Suppressed
from penstock.topology.options.table_joined import TableJoined
from penstock.topology.options.windows import EmitStrategy, SlidingWindows, TimeWindows, UnlimitedWindows, Windows
from penstock.topology.physical.description import TopologyDescription
from penstock.topology.processor_api.call_context import CallContext
from penstock.topology.processor_api.connected_stores import ConnectedStoreProvider
from penstock.topology.processor_api.fixed_key_processor import (
    ContextualFixedKeyProcessor,
    FixedKeyProcessor,
    FixedKeyProcessorContext,
    FixedKeyRecord,
)
from penstock.topology.processor_api.processor import (
    Cancellable,
    ContextualProcessor,
    ProcessingContext,
    Processor,
    ProcessorContext,
    PunctuationType,
    RecordContext,
    StreamPartitioner,
    TopicNameExtractor,
)
from penstock.topology.processor_api.processor_wrapper import Change, ProcessorWrapper
from penstock.topology.processor_api.value_transformer import ValueTransformerWithKey

if TYPE_CHECKING:
    from penstock.api.kafka_streams import KafkaStreams
    from penstock.cli.run import run_application as run
    from penstock.cluster.client.close_options import CloseOptions
    from penstock.cluster.client.running_application import RunningApplication
    from penstock.cluster.queries.metrics import MetricName
    from penstock.cluster.queries.queryable import QueryableStoreType, QueryableStoreTypes
    from penstock.cluster.queries.state_query import StateQueryRequest, StateQueryResult
    from penstock.cluster.queries.store_metadata import KeyQueryMetadata, StreamsMetadata
    from penstock.cluster.queries.store_view import ReadOnlyKeyValueStore, ReadOnlyVersionedKeyValueStore
    from penstock.cluster.read_side import ApplicationState, ApplicationStatus
    from penstock.testing.driver_topics import TestInputTopic, TestOutputTopic, TestRecord
    from penstock.testing.topology_test_driver import TopologyTestDriver

    __version__: str

__all__ = [
    "AggregationWithHeaders",
    "ApplicationState",
    "ApplicationStateError",
    "ApplicationStatus",
    "ArchiveError",
    "ArchiveGapError",
    "AutoOffsetReset",
    "Branched",
    "BranchedKStream",
    "Breaker",
    "BrokerUnreachableError",
    "BufferConfig",
    "BufferFullError",
    "Cache",
    "CallContext",
    "CallOrder",
    "CallTimeoutError",
    "Calls",
    "Cancellable",
    "Change",
    "CloseOptions",
    "CogroupedKStream",
    "CommitBatch",
    "CommittedStore",
    "ConfigError",
    "ConnectedStoreProvider",
    "Consumed",
    "ContextualFixedKeyProcessor",
    "ContextualProcessor",
    "CountQuery",
    "Deduplicated",
    "DefaultProductionExceptionHandler",
    "DeserializationError",
    "DeserializationExceptionHandler",
    "EagerBufferConfig",
    "EmitStrategy",
    "ErrorHandlerContext",
    "FailOnInvalidTimestamp",
    "FirstSeen",
    "FixedKeyProcessor",
    "FixedKeyProcessorContext",
    "FixedKeyRecord",
    "GenericRecord",
    "GlobalKTable",
    "Grouped",
    "Headers",
    "InternalTopicError",
    "InvalidTimestampError",
    "JoinWindows",
    "Joined",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "KafkaRefusedError",
    "KafkaStreams",
    "KeyQuery",
    "KeyQueryMetadata",
    "KeyValueStore",
    "KeysQuery",
    "LocalBrokerError",
    "LogAndContinue",
    "LogAndFail",
    "LogAndSkipOnInvalidTimestamp",
    "Materialized",
    "MetricName",
    "MissingTopicError",
    "MockSchemaRegistry",
    "MultiVersionedKeyQuery",
    "Named",
    "NotUpToBoundError",
    "ObjectExistsError",
    "ObjectMissingError",
    "ObjectStoreError",
    "PartitionerMismatchError",
    "Position",
    "PositionBound",
    "PositionError",
    "PrefixQuery",
    "Printed",
    "ProcessingContext",
    "ProcessingError",
    "ProcessingExceptionHandler",
    "Processor",
    "ProcessorContext",
    "ProcessorWrapper",
    "Produced",
    "ProducerRecord",
    "ProductionError",
    "ProductionExceptionHandler",
    "PunctuationType",
    "Query",
    "QueryRow",
    "QueryableStoreType",
    "QueryableStoreTypes",
    "RangeQuery",
    "ReadOnlyKeyValueStore",
    "ReadOnlySessionStore",
    "ReadOnlyVersionedKeyValueStore",
    "ReadOnlyWindowStore",
    "Record",
    "RecordContext",
    "RecordError",
    "RecordMetadata",
    "RecordRefusedError",
    "Repartitioned",
    "Response",
    "Result",
    "RetriableError",
    "Retry",
    "RuleBrokenError",
    "RunningApplication",
    "Serde",
    "Serdes",
    "SerializationError",
    "SerializationExceptionOrigin",
    "SessionQuery",
    "SessionRangeQuery",
    "SessionStore",
    "SessionWindowedCogroupedKStream",
    "SessionWindowedKStream",
    "SessionWindows",
    "SlidingWindows",
    "StandbyUpdateListener",
    "StateQueryRequest",
    "StateQueryResult",
    "StateRestoreListener",
    "StateStore",
    "StateStoreContext",
    "StateStoreCorruptError",
    "StateStoreDiskError",
    "StateStoreError",
    "StateStoreLockedError",
    "StoreBuilder",
    "StoreEntry",
    "StoreInFolder",
    "StoreType",
    "Stores",
    "StreamJoined",
    "StreamPartitioner",
    "StreamsBuilder",
    "StreamsError",
    "StreamsMetadata",
    "StrictBufferConfig",
    "Suppressed",
    "SuspendReason",
    "TableJoined",
    "TaskId",
    "TaskNotReadyError",
    "TaskStores",
    "TestInputTopic",
    "TestOutputTopic",
    "TestRecord",
    "TimeWindowedCogroupedKStream",
    "TimeWindowedKStream",
    "TimeWindows",
    "TimestampExtractor",
    "TimestampedKeyQuery",
    "TimestampedRangeQuery",
    "TopicNameExtractor",
    "TopicPartition",
    "Topology",
    "TopologyDescription",
    "TopologyError",
    "TopologyTestDriver",
    "UncaughtExceptionHandler",
    "UncaughtExceptionResponse",
    "UnknownQueryError",
    "UnknownStateStoreError",
    "UnlimitedWindows",
    "UsePartitionTimeOnInvalidTimestamp",
    "ValueAndTimestamp",
    "ValueTimestampHeaders",
    "ValueTransformerWithKey",
    "VersionEntry",
    "VersionedKeyQuery",
    "VersionedKeyValueStore",
    "VersionedRecord",
    "WallclockTimestampExtractor",
    "Window",
    "WindowKeyQuery",
    "WindowRangeQuery",
    "WindowStore",
    "Windowed",
    "WindowedEntry",
    "WindowedSerdes",
    "Windows",
    "__version__",
    "run",
]

_LATER = {
    name: module
    for module, names in {
        "penstock.cluster.read_side": ("ApplicationState", "ApplicationStatus"),
        "penstock.cluster.client.close_options": ("CloseOptions",),
        "penstock.api.kafka_streams": ("KafkaStreams",),
        "penstock.cluster.queries.store_metadata": ("KeyQueryMetadata", "StreamsMetadata"),
        "penstock.cluster.queries.metrics": ("MetricName",),
        "penstock.cluster.queries.queryable": ("QueryableStoreType", "QueryableStoreTypes"),
        "penstock.cluster.queries.store_view": ("ReadOnlyKeyValueStore", "ReadOnlyVersionedKeyValueStore"),
        "penstock.cluster.client.running_application": ("RunningApplication",),
        "penstock.cluster.queries.state_query": ("StateQueryRequest", "StateQueryResult"),
        "penstock.cli.run": ("run",),
        "penstock.testing.driver_topics": ("TestInputTopic", "TestOutputTopic", "TestRecord"),
        "penstock.testing.topology_test_driver": ("TopologyTestDriver",),
    }.items()
    for name in names
}


if not TYPE_CHECKING:  # which would take any name for one that is imported later

    def __getattr__(name: str) -> object:
        if name == "__version__":
            return import_module("penstock.common.version").version()
        if name not in _LATER:
            raise AttributeError(f"module 'penstock' has no attribute {name!r}")
        return getattr(import_module(_LATER[name]), "run_application" if name == "run" else name)


def __dir__() -> list[str]:
    # What is imported later is there as well, for completion and help().
    return list(__all__)
