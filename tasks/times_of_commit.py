"""How far the records of a commit had come, for each store of its task."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.common.ids import CommittedOffset, TopicPartition
from penstock.tasks.offsets import STREAM_TIME, decode_partition_time, decode_remembered, short_name
from penstock.tasks.program import TaskProgram
from penstock.topology.physical.topology import ProcessorNode


def times_of_commit(program: TaskProgram, offsets: Mapping[TopicPartition, CommittedOffset]) -> dict[str, int]:
    """The largest time (ms) that each store's operators had seen, by store; −1 if none is known.

    It is what they remember. Those that remember none had come as far as the topics whose records reach them, or as the
    operators in front of them. What else the task reads may be far ahead: it does not count.
    """
    remembered: dict[str, int] = {}
    for offset in offsets.values():
        for name, ms in decode_remembered(offset.metadata).items():
            remembered[name] = max(ms, remembered.get(name, -1))
    seen: dict[str, int] = {}
    for tp, offset in offsets.items():
        if (source := program.sources.get(tp.topic)) is not None:
            time = decode_partition_time(offset.metadata)
            seen[source.node] = max(time, seen.get(source.node, -1))
    times: dict[str, int] = {}
    for node in program.nodes:  # parents come before their children
        stores = node.stores if isinstance(node, ProcessorNode) else ()
        names = [name + STREAM_TIME for name in (node.name, *stores)]
        own = [remembered[each] for name in names for each in (name, short_name(name)) if each in remembered]
        time = seen[node.name] = max(own or [seen.get(node.name, -1)])
        for child in program.children[node.name]:
            seen[child.name] = max(time, seen.get(child.name, -1))
        for store in stores:
            times[store] = max(time, times.get(store, -1))
    return times
