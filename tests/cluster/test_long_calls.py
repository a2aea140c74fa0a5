"""A start warns of calls out that may last longer than a transaction."""

from __future__ import annotations

from structlog.testing import capture_logs

import penstock as ps
from penstock.cluster.client.start_checks import warn_of_long_calls
from penstock.kafka.settings import transaction_timeout_ms


async def look_up(value: str) -> str:
    return value


def test_calls_that_may_last_as_long_as_a_transaction_are_named_at_the_start() -> None:
    builder = ps.StreamsBuilder()
    visits = builder.stream("visits")
    visits.map_values_async(look_up, ps.Calls(timeout_ms=9_999), named="short").to("out")
    visits.map_values_async(look_up, ps.Calls(timeout_ms=10_000), named="long").to("out")
    with capture_logs() as lines:
        warn_of_long_calls(builder.build(), transaction_timeout_ms({}))
    assert [(line["event"], line["operator"], line["transaction_timeout_ms"]) for line in lines] == [
        ("calls out may last longer than a transaction", "long", 10_000)
    ]
    with capture_logs() as lines:
        warn_of_long_calls(builder.build(), transaction_timeout_ms({"transaction.timeout.ms": 60_000}))
    assert lines == []
