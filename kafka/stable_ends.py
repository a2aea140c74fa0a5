"""Asks for the last stable offsets of partitions, which librdkafka's consumer does not expose."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka import TopicPartition as Tpo
from confluent_kafka.admin import AdminClient

from penstock.common.ids import TopicPartition
from penstock.kafka.admin import LATEST
from penstock.kafka.leaders import LEADERS_OUTDATED, checked_offset, refresh_leaders
from penstock.kafka.settings import REQUEST_TIMEOUT_S, UNREACHABLE, admin_settings, client_configuration, code_of

_AGE_S = 0.1
_REFRESH_S = 1.0


class _Question:
    """A request without an answer yet. ``watermark``: the high watermark that was known when it was sent."""

    def __init__(self, watermark: int, answer: Future[Any]) -> None:
        self.watermark = watermark
        self.answer = answer
        self.answered_s = 0.0
        answer.add_done_callback(self._note_time)

    def _note_time(self, _: Future[Any]) -> None:
        self.answered_s = time.monotonic()


class StableEnds:
    """Asks brokers for last stable offsets, in the background. An answer is valid as long as the high watermark does
    not change: then nothing was written since, not even the end of a transaction. It is also valid for 100 ms after its
    arrival, as the ends of a fetch are. Otherwise no answer would ever be valid while others write continuously."""

    def __init__(self, bootstrap_servers: str, overrides: Mapping[str, Any]) -> None:
        self._settings = admin_settings(bootstrap_servers, overrides)
        self._client = self._new_client()
        self._asked: dict[TopicPartition, _Question] = {}
        self._known: dict[TopicPartition, tuple[_Question, int]] = {}

    def _new_client(self) -> AdminClient:
        with client_configuration("consumer."):
            return AdminClient(self._settings)

    def end(self, partition: TopicPartition, watermark: int) -> int | None:
        """Returns the last stable offset as of a moment ago; None while it is not known. Does not wait for it; only a
        look-up of leaders, after an answer that they have changed, takes up to 1 s.

        ``watermark``: the high watermark as the consumer knows it; -1 if it may have changed since."""
        self._take_answer(partition)
        now_s = time.monotonic()
        question, offset = self._known.get(partition, (None, 0))
        unchanged = question is not None and question.watermark == watermark >= 0
        age_s = 0.0 if question is None else now_s - question.answered_s
        if partition not in self._asked and not unchanged and (question is None or age_s > _AGE_S / 2):
            self._ask(partition, watermark)
        return offset if question is not None and (unchanged or age_s <= _AGE_S) else None

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget the offsets of ``partitions``, which are no longer read, or are read from another offset."""
        for partition in partitions:
            self._asked.pop(partition, None)
            self._known.pop(partition, None)

    def _ask(self, partition: TopicPartition, watermark: int) -> None:
        answers = self._client.list_offsets(
            {Tpo(*partition): LATEST}, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=REQUEST_TIMEOUT_S
        )
        [answer] = answers.values()
        self._asked[partition] = _Question(watermark, answer)

    def _take_answer(self, partition: TopicPartition) -> None:
        question = self._asked.get(partition)
        if question is None or not question.answer.done():
            return
        del self._asked[partition]
        try:
            self._known[partition] = question, checked_offset(question.answer.result().offset)
        except KafkaException as error:
            self._known.pop(partition, None)  # not known, so it is asked again
            if code_of(error) in LEADERS_OUTDATED:
                with suppress(KafkaException):  # repeated after the next such answer
                    refresh_leaders(self._client, _REFRESH_S)
            elif code_of(error) in UNREACHABLE:
                # The broker is away, or the client is stuck (see ``fetch_watch.py``), and so are its other requests.
                self._asked.clear()
                self._client = self._new_client()


def open_stable_ends(bootstrap_servers: str, overrides: Mapping[str, Any]) -> StableEnds | None:
    """Returns None for a reader of uncommitted records, for which the high watermark is the end."""
    if overrides.get("isolation.level") != "read_committed":
        return None
    return StableEnds(bootstrap_servers, overrides)
