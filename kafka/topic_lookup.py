"""The number of partitions of a topic that is to be written."""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.kafka.refusals import require_partitions

_CREATED_WITHIN_S = 2.0
_AGAIN_S = 0.1


def partitions_of(topic: str, ask: Callable[[], int]) -> int:
    """The number of partitions of ``topic`` by ``ask``, which gives 0 for one that the broker does not know.

    A broker with ``auto.create.topics.enable`` creates a topic when it is asked for it, and knows it a moment later: so
    it is asked for 2 s. Raises MissingTopicError.
    """
    deadline = time.monotonic() + _CREATED_WITHIN_S
    while not (count := ask()) and time.monotonic() < deadline:
        time.sleep(_AGAIN_S)
    return require_partitions(topic, count)
