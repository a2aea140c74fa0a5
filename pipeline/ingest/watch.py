"""Follows the progress topic while the lanes run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing, suppress
from types import TracebackType
from typing import Self

from penstock.common.errors import StreamsError
from penstock.common.ids import TopicPartition
from penstock.kafka.clients import KafkaClients
from penstock.kafka.contracts import BEGINNING
from penstock.pipeline.ingest.progress import Progress, ProgressTopic

Report = Callable[[Progress], None]
_LOOK_EACH_S = 1.0
_RECORDS = 10_000


class Watch:
    """Reports the progress each second, in a thread of its own, while its ``with`` block runs."""

    def __init__(self, clients: KafkaClients, topic: ProgressTopic, report: Report) -> None:
        self._clients = clients
        self._partition = TopicPartition(topic.name, 0)
        self._report = report
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ingest-progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        progress = Progress()
        # The lanes themselves find out what is wrong with Kafka.
        with suppress(StreamsError), closing(self._clients.consumer()) as consumer:
            consumer.assign({self._partition: BEGINNING})
            while not self._over.wait(_LOOK_EACH_S):
                for batch in consumer.poll(_RECORDS, 0.0):
                    for key, value in zip(batch.keys, batch.values, strict=True):
                        progress.take(key, value)
                self._report(progress)
