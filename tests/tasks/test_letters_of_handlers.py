"""Letters that a handler of the program's own makes, and what handlers drop in the counters."""

from __future__ import annotations

from typing import Any

import penstock as ps
from penstock.common.records import SENT_NOW
from penstock.tasks.task_metrics import HandlerCounts
from tests.tasks.bench import STRINGS, Bench


class Own(ps.ProcessingExceptionHandler):
    """Writes two letters: one with its own time and partition, one without."""

    def handle_error(
        self, context: ps.ErrorHandlerContext, record: ps.Record[Any, Any] | None, error: Exception
    ) -> ps.Response:
        placed: ps.ProducerRecord[bytes | None, bytes | None] = ps.ProducerRecord("letters", b"k", None, 7, partition=2)
        return ps.Response.resume([placed, ps.ProducerRecord("letters", b"k", None)])


def test_time_and_partition_of_a_letter_are_the_handlers_and_else_those_of_sending() -> None:
    builder = ps.StreamsBuilder()
    numbers = builder.stream("in", STRINGS).map_values(int)
    numbers.to("out", ps.Produced.with_(ps.Serdes.string(), ps.Serdes.long()))
    bench = Bench(builder, {"processing.exception.handler": Own()})
    sent = bench.feed("in", ("k", "seven", 1), ("k", "8", 2))
    letters = [each for each in sent if each.topic == "letters"]
    assert [(each.timestamp, each.partition) for each in letters] == [(7, 2), (SENT_NOW, -1)]
    assert bench.state_manager.context.failures.counts() == HandlerCounts(processing=1, dead_letters=2)
