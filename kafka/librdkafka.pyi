from collections.abc import Callable, Mapping

from confluent_kafka import Consumer

from penstock.common.ids import TopicPartition
from penstock.common.measures import Sent
from penstock.common.records import Headers, RecordBatch
from penstock.kafka.fetcher import Event

class Mark:
    def delivered(self) -> bool: ...
    def ends(self) -> dict[TopicPartition, int]: ...

class CountingSender:
    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None = None,
        partition: int = -1,
    ) -> None: ...
    def take(self) -> Sent: ...

class Sender:
    def __init__(
        self,
        settings: Mapping[str, str | float],
        refused: Callable[[int, str | None, str | None, int, bytes | None], Exception],
    ) -> None: ...
    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None = None,
        partition: int = -1,
    ) -> None: ...
    def poll(self) -> None: ...
    def flush(self, timeout_s: float) -> bool: ...
    def mark(self) -> Mark: ...
    def counting(self) -> CountingSender: ...
    def count_partitions(self, topic: str, timeout_s: float) -> int: ...
    def close(self) -> None: ...

class Fetcher:
    def __init__(self, consumer: Consumer) -> None: ...
    def fetch(self, max_records: int, timeout_s: float) -> tuple[list[RecordBatch], list[Event]]: ...
    def close(self) -> None: ...
