"""``--sample``: a part of the keys, if each row of a store depends on the records of its own key alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from typing_extensions import override

from penstock.common.ids import TopicPartition
from penstock.common.offset_ranges import Ranges
from penstock.common.records import RecordBatch
from penstock.pipeline.reading.contracts import HistorySource, OpenHistory
from penstock.state.key_sample import KeySample
from penstock.state.key_value.store import KeyValueStoreBuilder, TimestampedKeyValueStoreBuilder
from penstock.tasks.program import TaskProgram
from penstock.topology.physical.topology import ProcessorNode, SourceNode

_KINDS = (KeyValueStoreBuilder, TimestampedKeyValueStoreBuilder)


def refusal_of_sample(programs: Mapping[int, TaskProgram], repartition: Iterable[str]) -> str | None:
    """Returns the reason for which rows depend on more than the records of their own keys; None if they do not."""
    for topic in sorted(repartition):
        return f"records get other keys on their way through repartition topic {topic!r}"
    for program in programs.values():
        if (reason := _refusal_of(program)) is not None:
            return reason
    return None


def _refusal_of(program: TaskProgram) -> str | None:
    serdes = {source.key_serde.name for source in program.sources.values()}
    for name, store in program.stores.items():
        if not isinstance(store, _KINDS) or store.changes_by_itself:
            return f"store {name!r} ({store.layout}) depends on stream time, which the other keys' records move, too"
        assert store.key_serde is not None
        if {store.key_serde.name} != serdes:
            return f"store {name!r} may write keys as other bytes than its topics do"
    changed: dict[str, str] = {}
    for node in program.nodes:
        if isinstance(node, SourceNode):
            continue
        above = next((changed[parent] for parent in node.parents if parent in changed), None)
        if not isinstance(node, ProcessorNode):
            continue
        operator = node.operator
        if node.stores and above is not None:
            return f"{above} changes keys before {node.name} keeps something of them"
        if node.stores and (operator.runs_user_objects or not operator.keeps_key):
            return f"{node.name} may keep something of other keys than the record's"
        if above is not None or not operator.keeps_key:
            changed[node.name] = above or node.name
    return None


@dataclass(frozen=True)
class SampledHistory(HistorySource):
    """The records of ``source`` whose keys are in ``sample``."""

    source: HistorySource
    sample: KeySample

    @override
    def available(self, partitions: Iterable[TopicPartition]) -> Ranges:
        return self.source.available(partitions)

    @override
    def offsets_at(self, partitions: Iterable[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int]:
        return self.source.offsets_at(partitions, time_ms)

    @override
    def require(self, ranges: Ranges) -> None:
        self.source.require(ranges)

    @override
    def open(self, ranges: Ranges) -> OpenHistory:
        return _OpenSample(self.source.open(ranges), self.sample)


class _OpenSample(OpenHistory):
    def __init__(self, opened: OpenHistory, sample: KeySample) -> None:
        self._opened = opened
        self._sample = sample

    @override
    def batches(self, partition: TopicPartition) -> Iterator[RecordBatch]:
        for batch in self._opened.batches(partition):
            kept = [index for index, key in enumerate(batch.keys) if key is not None and self._sample.has(key)]
            if kept:
                yield batch.chosen(kept)

    @override
    def close(self) -> None:
        self._opened.close()
