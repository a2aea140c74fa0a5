"""The last stable offsets of partitions, for a reader of committed records: librdkafka keeps them to itself."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka import TopicPartition as Tpo
from confluent_kafka.admin import AdminClient

from penstock.common.ids import TopicPartition
from penstock.kafka.admin import LATEST
from penstock.kafka.leaders import LEADERS_OUTDATED, known, refresh_leaders
from penstock.kafka.settings import REQUEST_TIMEOUT_S, UNREACHABLE, admin_settings, client_configuration, code_of

_AGE_S = 0.1
_REFRESH_S = 1.0


class StableEnds:
    """Asks in the background. An answer counts until 100 ms after the question, as the ends of a fetch do."""

    def __init__(self, bootstrap_servers: str, overrides: Mapping[str, Any]) -> None:
        self._settings = admin_settings(bootstrap_servers, overrides)
        self._client = self._new_client()
        self._asked: dict[TopicPartition, tuple[float, Future[Any]]] = {}
        self._known: dict[TopicPartition, tuple[float, int]] = {}

    def _new_client(self) -> AdminClient:
        with client_configuration("consumer."):
            return AdminClient(self._settings)

    def end(self, partition: TopicPartition) -> int | None:
        """The last stable offset as of a moment ago; None while that is not known. Does not wait for it: only a look-up
        of leaders, after an answer that they have changed, takes up to 1 s."""
        now = time.monotonic()
        asked_at, asked = self._asked.get(partition, (0.0, None))
        if asked is not None and asked.done():
            del self._asked[partition]
            try:
                # It may have lain here for long: what it says is as old as the question.
                self._known[partition] = asked_at, known(asked.result().offset)
            except KafkaException as error:
                self._known.pop(partition, None)  # not known, so it is asked again below
                if code_of(error) in LEADERS_OUTDATED:
                    with suppress(KafkaException):  # asked again after the next answer that says so
                        refresh_leaders(self._client, _REFRESH_S)
                elif code_of(error) in UNREACHABLE:
                    # The broker is away, or the client is what is stuck (``fetch_watch.py`` says how), with whatever
                    # else it was asked.
                    self._asked.clear()
                    self._client = self._new_client()
        at, offset = self._known.get(partition, (0.0, 0))
        if partition not in self._asked and now - at > _AGE_S / 2:
            answers = self._client.list_offsets(
                {Tpo(*partition): LATEST},
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=REQUEST_TIMEOUT_S,
            )
            [answer] = answers.values()
            self._asked[partition] = now, answer
        return offset if now - at <= _AGE_S else None


def open_stable_ends(bootstrap_servers: str, overrides: Mapping[str, Any]) -> StableEnds | None:
    """None for a reader of uncommitted records, to whom the high watermark is the end."""
    if overrides.get("isolation.level") != "read_committed":
        return None
    return StableEnds(bootstrap_servers, overrides)
