"""The times that the records of a commit had reached, for each store of its task."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.tasks.offsets import STREAM_TIME, TTL_TIME, decode_partition_time, decode_remembered, short_name
from penstock.tasks.program import TaskProgram
from penstock.topology.physical.topology import ProcessorNode


def times_of_commit(program: TaskProgram, offsets: Mapping[TopicPartition, CommittedOffset]) -> dict[str, int]:
    """Returns the largest time (ms) that each store's operators had seen, by store; −1 if none is known.

    An operator may remember its time in the metadata of the offsets. The time of an operator that does not is the
    largest of the topics and operators whose records reach it. Other topics that the task reads may be far ahead: they
    do not count, nor do operators that only look into a store. But rows with a TTL expire by the time of all topics
    that the task reads.
    """
    found = [decode_remembered(each.metadata) for each in offsets.values() if each.offset > 0 and each.metadata]

    def remembered(name: str) -> int:
        times = [max(each.get(name, -1), each.get(short_name(name), -1)) for each in found]
        # penstock writes a time into the metadata of each partition. If one lacks it, Kafka Streams has continued in
        # that partition: the time that others still have is older than the commit.
        return -1 if -1 in times else max(times, default=-1)

    partitions = {tp: decode_partition_time(offset.metadata) for tp, offset in offsets.items()}
    seen: dict[str, int] = {}
    for tp, time in partitions.items():
        if (source := program.sources.get(tp.topic)) is not None:
            seen[source.node] = max(time, seen.get(source.node, -1))
    times: dict[str, int] = {}
    for node in program.nodes:  # parents come before their children
        stores = node.stores if isinstance(node, ProcessorNode) else ()
        own = max(remembered(each + STREAM_TIME) for each in (node.name, *stores))
        time = seen[node.name] = own if own >= 0 else seen.get(node.name, -1)
        for child in program.children[node.name]:
            seen[child.name] = max(time, seen.get(child.name, -1))
        if isinstance(node, ProcessorNode):
            for store in set(stores) - node.operator.stores_looked_into:
                times[store] = max(time, times.get(store, -1))
    of_task = max([remembered(TTL_TIME), *partitions.values()])
    return times | {name: of_task for name, store in program.stores.items() if store.changes_by_itself}
