"""The partitions of a task whose next record cannot be decoded now: reported in the log and in the status."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.common.errors import RetriableError
from penstock.common.ids import TopicPartition
from penstock.common.log import logger

_EACH_S = 30.0

Waits = Mapping[TopicPartition, tuple[int, RetriableError]]


class SerdeWaits:
    """Remembers since when each partition waits for a serde, and logs it at the beginning, every half minute, and at
    the end."""

    def __init__(self) -> None:
        self.reason: str | None = None
        """The partitions that wait, and why; None if none does."""
        self._since: dict[TopicPartition, float] = {}
        self._logged: dict[TopicPartition, float] = {}

    def note(self, waits: Waits, now_s: float) -> None:
        """Take note of the partitions that wait now."""
        if not waits and not self._since:
            return
        log = logger(__name__)
        for tp, (offset, error) in waits.items():
            since = self._since.setdefault(tp, now_s)
            if now_s - self._logged.get(tp, now_s - _EACH_S) >= _EACH_S:
                self._logged[tp] = now_s
                log.warning(
                    "records wait for a serde that cannot answer, asking it again",
                    topic=tp.topic, partition=tp.partition, offset=offset, reason=str(error),
                    waited_s=round(now_s - since, 1),
                )  # fmt: skip
        for tp in self._since.keys() - waits.keys():
            waited_s = round(now_s - self._since.pop(tp), 1)
            self._logged.pop(tp, None)
            log.info("the serde answers again", topic=tp.topic, partition=tp.partition, waited_s=waited_s)
        places = sorted(f"{tp} from offset {offset} on: {error}" for tp, (offset, error) in waits.items())
        self.reason = "; ".join(places) or None
