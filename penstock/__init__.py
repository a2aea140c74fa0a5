"""penstock: Kafka Streams for Python, on Ray.

The names below are the whole public surface. What runs on Ray (:class:`KafkaStreams`, :func:`run`) is imported when it
is first used, so that a Spark executor or a test of a topology needs no Ray.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from penstock.common.errors import StreamsError, TopologyError
from penstock.common.extractors import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    TimestampExtractor,
    UsePartitionTimeOnInvalidTimestamp,
)
from penstock.common.handlers import ExceptionHandler, HandlerResponse, LogAndContinue, LogAndFail
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.records import Headers, Record, RecordMetadata
from penstock.common.serdes import Serde, Serdes
from penstock.state.builders import StoreBuilder, Stores
from penstock.state.contracts import KeyValueStore, ValueAndTimestamp
from penstock.topology.branched import Branched, BranchedKStream
from penstock.topology.graph import RecordContext, StreamPartitioner, TopicNameExtractor, Topology
from penstock.topology.kgrouped_stream import KGroupedStream
from penstock.topology.kstream import KStream
from penstock.topology.ktable import KTable
from penstock.topology.materialized import Materialized, StoreType
from penstock.topology.options import Consumed, Grouped, Joined, Named, Produced, Repartitioned
from penstock.topology.processor import Cancellable, Processor, ProcessorContext, PunctuationType
from penstock.topology.streams_builder import StreamsBuilder

if TYPE_CHECKING:
    from penstock.api.kafka_streams import KafkaStreams
    from penstock.cli.run import run_application as run
    from penstock.testing.topology_test_driver import TestInputTopic, TestOutputTopic, TestRecord, TopologyTestDriver

__all__ = [
    "Branched",
    "BranchedKStream",
    "Cancellable",
    "Consumed",
    "ExceptionHandler",
    "FailOnInvalidTimestamp",
    "Grouped",
    "HandlerResponse",
    "Headers",
    "Joined",
    "KGroupedStream",
    "KStream",
    "KTable",
    "KafkaStreams",
    "KeyValueStore",
    "LogAndContinue",
    "LogAndFail",
    "LogAndSkipOnInvalidTimestamp",
    "Materialized",
    "Named",
    "Processor",
    "ProcessorContext",
    "Produced",
    "PunctuationType",
    "Record",
    "RecordContext",
    "RecordMetadata",
    "Repartitioned",
    "Serde",
    "Serdes",
    "StoreBuilder",
    "StoreType",
    "Stores",
    "StreamPartitioner",
    "StreamsBuilder",
    "StreamsError",
    "TaskId",
    "TestInputTopic",
    "TestOutputTopic",
    "TestRecord",
    "TimestampExtractor",
    "TopicNameExtractor",
    "TopicPartition",
    "Topology",
    "TopologyError",
    "TopologyTestDriver",
    "UsePartitionTimeOnInvalidTimestamp",
    "ValueAndTimestamp",
    "run",
]

_LATER = {
    "KafkaStreams": ("penstock.api.kafka_streams", "KafkaStreams"),
    "run": ("penstock.cli.run", "run_application"),
    "TestInputTopic": ("penstock.testing.topology_test_driver", "TestInputTopic"),
    "TestOutputTopic": ("penstock.testing.topology_test_driver", "TestOutputTopic"),
    "TestRecord": ("penstock.testing.topology_test_driver", "TestRecord"),
    "TopologyTestDriver": ("penstock.testing.topology_test_driver", "TopologyTestDriver"),
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    module, attribute = _LATER[name]
    return getattr(import_module(module), attribute)
