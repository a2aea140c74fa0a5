"""The memory of an executor does not grow with the state of its tasks."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import random, resource, sys
import penstock as ps
from penstock.common.config import StreamsConfig
from penstock.common.ids import TopicPartition
from penstock.common.records import RecordBatch
from penstock.pipeline.rows import CHANGELOG
from penstock.pipeline.task_hosts.collector import TopicCounts
from penstock.pipeline.chunk import Chunk
from penstock.pipeline.task_hosts.task_host import HostSettings, TaskHost

count, size = int(sys.argv[1]), 500
text = ps.Serdes.string()

class Put(ps.Processor):
    def init(self, context):
        self.store = context.get_state_store("plain")
    def process(self, record):
        self.store.put(record.key, record.value)

builder = ps.StreamsBuilder()
store = ps.Stores.key_value_store_builder(ps.Stores.persistent_key_value_store("plain"), text, text)
builder.add_state_store(store)  # its records are kept as they come: its rows have no timestamps
lines = builder.stream("lines", ps.Consumed.with_(text, text))
lines.process(Put, "plain")
lines.to_table(ps.Materialized.as_("timed"))  # its rows are read at the end
draw = random.Random(1)

class Lines:
    def open(self, tasks):
        return self

    def restored(self):
        return iter(())

    def chunks(self):
        for begin in range(0, count, size):
            places = list(range(begin, begin + size))
            keys = [b"%012d" % (at * 7919 % count) for at in places]
            values = [draw.randbytes(1000).hex().encode() for _ in places]
            yield Chunk([[RecordBatch(TopicPartition("lines", 0), keys, values, places, places)]], [0] * size)

    def close(self):
        pass

config = StreamsConfig.of(
    {"application.id": "app", "statestore.cache.max.bytes": 1 << 20, "statestore.memory.max.bytes": 16 << 20}
)
topics = TopicCounts({}, frozenset(), frozenset({"app-plain-changelog", "app-timed-changelog"}))
written = 0
for batch in TaskHost(builder.build().subtopologies[0], HostSettings(config, topics, {})).run([0], Lines()):
    written += sum(kind == CHANGELOG for kind in batch.column("kind").to_pylist())
print(written, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""


def peak_mb(count: int) -> int:
    """The most memory (MB) of a process that runs a task with ``count`` rows of 2 kB in each of two stores."""
    ended = subprocess.run([sys.executable, "-c", _PROGRAM, str(count)], capture_output=True, text=True, check=True)
    written, peak = map(int, ended.stdout.split())
    assert written == 2 * count
    return peak


@pytest.mark.submission
def test_memory_stays_flat_while_state_grows_to_several_times_the_budget() -> None:
    small, large = peak_mb(10_000), peak_mb(60_000)
    state_mb = 2 * 60_000 * 2000 >> 20
    assert large - small < state_mb / 3, f"{small} MB, and with {state_mb} MB of state {large} MB"
