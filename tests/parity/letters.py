"""Programs with bad records, as ``oracle/Letters.java`` has them, and the dead letters of Kafka Streams for them.

``python -m tests.parity.letters`` plays them on Kafka Streams and writes ``letters.jsonl`` again. Of a stack trace only
its presence is kept, and of an exception its simple name.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import typer

import penstock as ps
from tests.parity.oracle import KAFKA_VERSION, KafkaStreams, run

KEPT = Path(__file__).with_name("letters.jsonl")
STRING = ps.Serdes.string()
OUT: ps.Produced[Any, Any] = ps.Produced.with_(STRING, STRING)
IN: ps.Consumed[Any, Any] = ps.Consumed.with_(STRING, STRING)


def good(value: Any) -> Any:
    """Returns ``value``; raises for a bad one."""
    if value is not None and "bad" in value:
        raise ValueError(f"no good: {value}")
    return value


def no_message(value: str) -> str:
    """As :func:`good`, without a message."""
    if value == "bad":
        raise LookupError
    return value


def _written(value: str) -> bytes:
    return str(good(value)).encode()


def _read(data: bytes) -> str:
    return str(good(data.decode()))


PICKY = ps.Serde("picky", _written, bytes.decode)
"""It refuses to write what is bad."""
REFUSING = ps.Serde("refusing", str.encode, _read)
"""It refuses to read what is bad."""


class Resume(ps.ProductionExceptionHandler):
    """Drops results, with letters of its own."""

    def handle_error(self, context: ps.ErrorHandlerContext, record: Any, error: Exception) -> ps.Response:
        return ps.Response.fail()

    def handle_serialization_error(
        self, context: ps.ErrorHandlerContext, record: Any, error: Exception, origin: ps.SerializationExceptionOrigin
    ) -> ps.Response:
        key, value = context.source_raw_key, context.source_raw_value
        return ps.Response.resume([ps.ProducerRecord("letters", key, value, context.timestamp)])


class Calling(ps.Processor[Any, Any, Any, Any]):
    """Runs functions."""

    def __init__(self, begin: Callable[[Any], Any], each: Callable[[Any, Any], Any]) -> None:
        self._begin = begin
        self._each = each
        self._context: Any = None

    def init(self, context: ps.ProcessorContext[Any, Any]) -> None:
        self._context = context
        self._begin(context)

    def process(self, record: ps.Record[Any, Any]) -> None:
        self._each(self._context, record)


def _calling(begin: Callable[[Any], Any], each: Callable[[Any, Any], Any]) -> Callable[[], Calling]:
    return lambda: Calling(begin, each)


def _nothing(*_: Any) -> None: ...


def _every_5_ms(call: Callable[[Any, int], Any]) -> Callable[[Any], Any]:
    def begin(context: Any) -> None:
        context.schedule(5, ps.PunctuationType.STREAM_TIME, lambda now: call(context, now))

    return begin


def _kept(caching: bool) -> Any:
    store: Any = ps.Materialized.as_("kept").with_key_serde(STRING).with_value_serde(STRING)
    return store.with_caching_enabled() if caching else store.with_caching_disabled()


def _latest(stream: Any, caching: bool) -> Any:
    return stream.group_by_key().reduce(lambda old, value: value, _kept(caching)).to_stream()


def _two_branches(stream: Any) -> Any:
    stream.to("copy", OUT)
    return stream.map_values(good)


def _suppressed(stream: Any) -> Any:
    windows = ps.TimeWindows.of_size_and_grace(timedelta(milliseconds=5), timedelta(0))
    table = stream.group_by_key().windowed_by(windows).reduce(lambda old, value: value, _kept(True))
    final = table.suppress(ps.Suppressed.until_window_closes(ps.BufferConfig.unbounded()))
    return final.to_stream(lambda window, value: window.key).map_values(good)


def _joined_streams(stream: Any, builder: ps.StreamsBuilder) -> Any:
    within = ps.JoinWindows.of_time_difference_and_grace(timedelta(milliseconds=5), timedelta(0))
    how = ps.StreamJoined.with_(STRING, STRING, STRING)
    return stream.left_join(builder.stream("right", IN), lambda one, other: good(one), within, how)


def _again(stream: Any, serde: ps.Serde[Any] = STRING) -> Any:
    again: Any = ps.Repartitioned.as_("again").with_key_serde(STRING).with_value_serde(serde)
    return stream.select_key(lambda key, value: f"x{key}").repartition(again)


def _tick(context: Any, now: int) -> None:
    good("bad")


OF_STREAMS: dict[str, Callable[[Any], Any]] = {
    "map after select_key": lambda s: s.select_key(lambda key, value: key + key).map_values(good),
    "sent before": _two_branches,
    "store without a cache": lambda s: _latest(s, False).map_values(good),
    "store with a cache": lambda s: _latest(s, True).map_values(good),
    "other time and headers": lambda s: s.process(
        _calling(_nothing, lambda c, r: c.forward(r.with_timestamp(99).with_headers([("mine", b"1")])))
    ).map_values(good),
    "processor": lambda s: s.process(_calling(_nothing, lambda c, r: good(r.value))),
    "punctuator": lambda s: s.process(_calling(_every_5_ms(_tick), _nothing)),
    "forwarded by a punctuator": lambda s: s.process(
        _calling(_every_5_ms(lambda c, now: c.forward(ps.Record("pk", "bad", now))), _nothing)
    ).map_values(good),
    "suppress": _suppressed,
    "repartition": lambda s: _again(s).map_values(good),
    "no message": lambda s: s.map_values(no_message),
    "flat map": lambda s: s.flat_map_values(lambda value: [value, "x bad", value]).map_values(good),
    "aggregate": lambda s: (
        s.group_by_key().aggregate(str, lambda key, value, sum: good(value), _kept(False)).to_stream()
    ),
    "map to a pair": lambda s: s.map(lambda key, value: (key, good(value))),
    "serialization for a repartition topic": lambda s: _again(s, PICKY),
}


class _Keeping(ps.Processor[Any, Any, None, None]):
    def process(self, record: ps.Record[Any, Any]) -> None:
        good(record.value)


def topology(name: str) -> ps.Topology:
    """Returns the program of this name."""
    builder = ps.StreamsBuilder()
    match name:
        case "deserialization":
            builder.stream("in", ps.Consumed.with_(STRING, REFUSING)).to("out", OUT)
        case "join with a table":
            table = builder.table("table", IN)
            builder.stream("in", IN).left_join(table, lambda left, right: good(left)).to("out", OUT)
        case "left join of streams":
            _joined_streams(builder.stream("in", IN), builder).to("out", OUT)
        case "filter of a table":
            builder.table("in", IN).filter(lambda key, value: good(value) is not None).to_stream().to("out", OUT)
        case "mapped table":
            builder.table("in", IN).map_values(good, _kept(False)).to_stream().to("out", OUT)
        case "serialization":
            builder.stream("in", IN).to("out", ps.Produced.with_(STRING, PICKY))
        case "global table":
            builder.global_table("names", ps.Consumed.with_(STRING, REFUSING))
            builder.stream("in", IN).to("out", OUT)
        case "global processor":
            supplier = ps.Stores.in_memory_key_value_store("global")
            builder.add_global_store(ps.Stores.key_value_store_builder(supplier, STRING, STRING), "names", IN, _Keeping)
            builder.stream("in", IN).to("out", OUT)
        case _:
            OF_STREAMS[name](builder.stream("in", IN)).to("out", OUT)
    return builder.build()


CONFIG = {
    "deserialization.exception.handler": ps.LogAndContinue(),
    "processing.exception.handler": ps.LogAndContinue(),
    "processing.exception.handler.global.enabled": True,
    "production.exception.handler": Resume(),
    "errors.dead.letter.queue.topic.name": "letters",
}


def play(case: dict[str, Any]) -> dict[str, Any]:
    """Returns the case with penstock's letters."""
    config = {"application.id": "parity", **CONFIG}
    with ps.TopologyTestDriver(topology(case["name"]), config) as driver:
        for time, topic, key, value in case["input"]:
            driver.pipe(topic, key.encode(), value.encode(), time, [("trace", key.encode())])
        raw = ps.Serdes.bytes()
        records = driver.create_output_topic("letters", raw, raw).read_records_to_list()
        letters = [
            {
                "key": _text(record.key),
                "value": _text(record.value),
                "ts": record.timestamp,
                "headers": [[name, _text(value)] for name, value in record.headers],
            }
            for record in records
        ]
        return shortened({**case, "letters": letters, "dropped": float(driver.metrics().dropped_records_total)})


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


_PYTHON_NAMES = {"IllegalArgumentException": "ValueError", "IllegalStateException": "LookupError"}


def shortened(case: dict[str, Any]) -> dict[str, Any]:
    """Returns the case with exceptions by their names in Python, and without the lines of stack traces."""
    for letter in case["letters"]:
        for header in letter["headers"]:
            if header[0] == "__streams.errors.stacktrace":
                header[1] = "…"
            elif header[0] == "__streams.errors.exception":
                simple = header[1].rpartition(".")[2]
                header[1] = _PYTHON_NAMES.get(simple, simple)
    return case


class Letters(KafkaStreams):
    """A JVM that plays all of these programs and ends."""

    program = "Letters"

    def cases(self) -> list[dict[str, Any]]:
        """Returns the answers."""
        assert self._jvm.stdout is not None
        return [shortened(orjson.loads(line)) for line in self._jvm.stdout]


def main(kafka_streams: str = KAFKA_VERSION) -> None:
    """Play the programs on Kafka Streams, and keep its letters."""
    with Letters(kafka_streams) as oracle:
        KEPT.write_bytes(b"".join(orjson.dumps(case) + b"\n" for case in oracle.cases()))
    typer.echo(f"{KEPT.name} is written")


if __name__ == "__main__":
    run(main)
