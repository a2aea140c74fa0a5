"""Operators that call out on the test driver, and their options."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import penstock as ps
from penstock.common.errors import ProcessingError, RuleBrokenError, TopologyError
from tests.tasks.test_calls import IN, OUT, STRINGS, WRONG, counted_first, upper

# As Python's own `except` wants them; mypy would refuse them.
CLASS: Any = OSError
CLASSES: Any = (OSError, KeyError)


def driven(build: Callable[[ps.KStream[str, str]], object], *values: str, config: Any = None) -> list[str | None]:
    builder = ps.StreamsBuilder()
    build(builder.stream("in", IN))
    with ps.TopologyTestDriver(builder.build(), config) as driver:
        source = driver.create_input_topic("in", STRINGS, STRINGS)
        for value in values:
            source.pipe_input("k", value)
        return [value for _, value in driver.create_output_topic("out", STRINGS, STRINGS).read_key_values_to_list()]


async def upper_later(value: str) -> str:
    await asyncio.sleep(0)
    return upper(value)


class Remote:
    """Looks like a method of a Ray actor."""

    def remote(self, value: str) -> Awaitable[str]:
        return upper_later(value)


@pytest.mark.parametrize("function", [upper, upper_later, Remote()])
def test_the_driver_runs_each_call_to_its_end_before_the_next_record(function: Any) -> None:
    assert driven(lambda stream: stream.map_values_async(function).to("out", OUT), "a", "b") == ["A", "B"]


def test_the_driver_runs_calls_where_another_event_loop_runs_already() -> None:
    async def test() -> list[str | None]:
        return driven(lambda stream: stream.map_values_async(upper_later).to("out", OUT), "a")

    assert asyncio.run(test()) == ["A"]


def test_the_driver_does_not_wait_for_pauses_and_time_outs() -> None:
    tries: list[str] = []

    async def never(value: str) -> str:
        tries.append(value)
        raise OSError("down")

    calls = ps.Calls(timeout_ms=3_600_000, retry=ps.Retry(tries=5, backoff_ms=100_000, max_backoff_ms=1_000_000))
    with pytest.raises(ProcessingError, match=r"OSError: down.*5 tries"):
        driven(lambda stream: stream.map_values_async(never, calls).to("out", OUT), "a")
    assert len(tries) == 5


def test_the_driver_reports_a_function_that_changes_its_value() -> None:
    async def change(value: list[str]) -> str:
        value.append("more")
        return "x"

    with pytest.raises(RuleBrokenError, match="changed its argument in place"):
        driven(lambda stream: stream.map_values(lambda value: [value]).map_values_async(change).to("out", OUT), "a")


def test_process_async_returns_records_of_its_own() -> None:
    async def split(record: ps.Record[str, str]) -> list[ps.Record[str, str]]:
        return [record.with_value(letter).with_timestamp(9) for letter in record.value]

    assert driven(lambda stream: stream.process_async(split).to("out", OUT), "ab", "", "c") == ["a", "b", "c"]


def test_process_async_explains_a_result_that_is_no_record() -> None:
    def build(stream: ps.KStream[str, str]) -> object:
        return stream.process_async(lambda record: WRONG).to("out", OUT)

    with pytest.raises(ProcessingError, match=r"process_async got .* among the results of its function, not a Record"):
        driven(build, "a")


def test_updates_of_a_table_with_a_cache_go_out_with_the_commit() -> None:
    assert driven(counted_first, "a", "b") == ["1", "2"]


class Client:
    """As clients of services do, it belongs to the event loop in which it was made."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()

    async def get(self, value: str) -> str:
        await self.loop.run_in_executor(None, upper, value)
        return upper(value)


def test_a_client_that_a_module_keeps_serves_the_next_test_too() -> None:
    kept: list[Client] = []

    async def ask(value: str) -> str:
        if not kept:
            kept.append(Client())
        return await kept[0].get(value)

    for _ in range(2):
        assert driven(lambda stream: stream.map_values_async(ask).to("out", OUT), "a") == ["A"]


# ---- options ----


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ps.Calls(max_in_flight=0), "max_in_flight must be a whole number from 1 on, not 0"),
        (lambda: ps.Calls(order="random"), "order must be one of 'key', 'partition', 'none', not 'random'"),
        (lambda: ps.Calls(retry=WRONG), "retry must be a Retry"),
        (lambda: ps.Calls(max_rate=0), "max_rate must be a number from 0.001 on, not 0"),
        (lambda: ps.Calls(timeout_ms="5s"), "timeout_ms must be a whole number of ms from 1 on, not '5s'"),  # type: ignore[arg-type]
        (lambda: ps.Retry(tries=0), "tries must be a whole number from 1 on, not 0"),
        (lambda: ps.Retry(retryable=WRONG), "must be callable"),
        (lambda: ps.Retry(retryable=CLASS), r"write retryable=lambda error: isinstance\(error, \(OSError\)\)"),
        (lambda: ps.Retry(retryable=CLASSES), r"isinstance\(error, \(OSError, KeyError\)\)"),
        (lambda: ps.Breaker(open_ms=0), "open_ms"),
        (lambda: ps.Cache(ttl_ms=0), "ttl_ms"),
    ],
)
def test_options_that_cannot_be_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        make()


def test_functions_that_cannot_be_called_are_refused() -> None:
    def generate(value: str) -> Any:
        yield value

    stream = ps.StreamsBuilder().stream("in", IN)
    call: Any = stream.map_values_async
    for function, message in (
        (lambda: "x", "takes f"),
        (generate, "has a yield"),
        (WRONG, "must be callable"),
    ):
        with pytest.raises(TopologyError, match=message):
            call(function)
    with pytest.raises(TopologyError, match="no two are equal"):
        stream.map_values_async(lambda value, context: value, ps.Calls(collapse=True))
