"""Records at an even pace, and their results as a reader hears them: how late each comes, and where none comes."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.measure import BenchmarkError
from benchmarks.sender import KEY
from penstock.common.ids import TopicPartition
from penstock.kafka.clients import ConfluentClients

_PATIENCE_S = 60.0
_HEARD_PER_S = 10_000
"""Results per second: of more only each second, third … is looked at: the reader must not be what is slow."""


@dataclass(frozen=True)
class Heard:
    """A result of one partition: when its record was due to be sent, and when it came (s)."""

    sent_s: float
    at_s: float

    @property
    def latency_ms(self) -> float:
        """Milliseconds from the due time of the record to the arrival of the result."""
        return (self.at_s - self.sent_s) * 1000


class Pulse:
    """Sends to ``source`` from a process of its own, and hears what comes out of ``sink`` in a thread."""

    def __init__(
        self,
        clients: ConfluentClients,
        source: str,
        sink: str,
        partitions: int,
        per_second: int,
        size: int = 100,
        records: int = 0,
    ) -> None:
        self.heard: dict[int, list[Heard]] = defaultdict(list)
        self.results = 0
        self._sink = sink
        self._clients = clients
        self._partitions = partitions
        self._one_in = max(1, per_second // _HEARD_PER_S)
        self._ending, self._listening = threading.Event(), threading.Event()
        # A pass over all that is heard, and over Ray's modules, takes a quarter of a second.
        gc.disable()
        self._thread = threading.Thread(target=self._hear, daemon=True)
        self._thread.start()
        self._listening.wait()
        arguments = (clients.bootstrap_servers, source, partitions, per_second, size, records)
        self._sender = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.sender", *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._wait_for_results()

    def _wait_for_results(self) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not self.results:
            if time.monotonic() > deadline:
                self.close()
                raise BenchmarkError(f"no result came within {_PATIENCE_S:.0f} s")
            time.sleep(0.01)

    def _hear(self) -> None:
        consumer = self._clients.consumer()
        partitions = [TopicPartition(self._sink, number) for number in range(self._partitions)]
        consumer.assign(consumer.fetch_end_offsets(partitions))
        self._listening.set()
        while not self._ending.is_set():
            for batch in consumer.poll(10_000, 0.05):
                now_s, heard = time.time(), self.heard[batch.partition.partition]
                mine = [
                    value
                    for key, value in zip(batch.keys, batch.values, strict=True)
                    if key is not None and value is not None and key.startswith(KEY)
                ]
                heard += [Heard(float(value[:17]), now_s) for value in mine[:: self._one_in]]
                self.results += len(mine)
        consumer.close()

    def silence_s(self, partition: int, since_s: float) -> float | None:
        """Returns the seconds without a result of ``partition`` around ``since_s``; None while none has come since."""
        heard = list(self.heard[partition])
        before = [it.at_s for it in heard if it.at_s <= since_s]
        # What was on its way when the actor died is no sign of life.
        after = [it.at_s for it in heard if it.at_s > since_s and it.sent_s > since_s]
        return min(after) - max(before[-1:], default=since_s) if after else None

    def latencies_ms(self, begin_s: float, end_s: float) -> list[float]:
        """Returns the latencies of all records that were due between the two, sorted."""
        return sorted(it.latency_ms for of in self.heard.values() for it in list(of) if begin_s <= it.sent_s < end_s)

    def wait_for_sender(self, timeout_s: float) -> int:
        """Wait until the sender has sent all. Returns the number of its records. Raises BenchmarkError."""
        try:
            output, _ = self._sender.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise BenchmarkError(f"the sender has not sent all after {timeout_s:.0f} s") from None
        return int(output.split()[0])

    def close(self) -> None:
        """End the sender and the reader."""
        if self._sender.poll() is None:
            self._sender.communicate()
        self._ending.set()
        self._thread.join()
        gc.enable()


def quantile(values: Sequence[float], at: float) -> float:
    """Returns the quantile ``at`` (0 to 1) of sorted values; nan if there are none."""
    return values[min(len(values) - 1, int(len(values) * at))] if values else float("nan")
