"""``map_batch``: when a batch begins, which of its records was bad, and what its function gets and returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from penstock.common.errors import ProcessingError, TopologyError
from penstock.tasks.calls.batch_machine import BatchMachine
from penstock.tasks.calls.element import DONE, FAILED, Element
from tests.tasks.bench import Bench, Resume
from tests.tasks.test_call_machine import Service
from tests.tasks.test_calls import IN, OUT, STRINGS, HeldCalls

WRONG: Any = "wrong"


def batches(max_records: int = 3, max_wait_ms: int = 10, calls: ps.Calls | None = None) -> Service:
    return Service(machine=BatchMachine(calls or ps.Calls(max_in_flight=1), max_records, max_wait_ms, in_order=False))


def sizes(service: Service) -> list[int]:
    return [len(batch) for batch in service.open.values()]


def end(service: Service, element: Element, result: Any) -> None:
    service.answer(element, result)


def test_while_a_batch_runs_others_gather_up_to_the_limit() -> None:
    service = batches()
    elements = [service.submit() for _ in range(6)]
    assert sizes(service) == [1]
    end(service, elements[0], ["a"])
    assert sizes(service) == [1, 3]
    end(service, elements[1], ["b", "c", "d"])
    assert [element.result for element in service.gone] == ["a", "b", "c", "d"]


def test_a_batch_waits_for_half_the_time_of_a_call_and_no_longer_than_allowed() -> None:
    service = batches(max_wait_ms=10)
    first = service.submit()
    service.tick(400)
    end(service, first, ["a"])
    service.submit()
    service.tick(9)
    assert sizes(service) == [1]
    service.submit()
    service.tick(1)
    assert sizes(service) == [1, 2]


def test_a_batch_that_fails_is_tried_again_record_by_record() -> None:
    service = batches(calls=ps.Calls(max_in_flight=3, retry=ps.Retry(tries=1)))
    first = service.submit()
    elements = [service.submit() for _ in range(3)]
    end(service, first, ["first"])
    batch = service.open[elements[0].number]
    assert len(batch) >= 1
    while any(element not in service.gone for element in elements):
        element = next(iter(service.machine.running.values()))
        group = service.open[element.number]
        bad = elements[1] in group
        end(service, element, ValueError("bad") if bad else ["good"] * len(group))
        service.tick(10)
    assert [element.state for element in elements] == [DONE, FAILED, DONE]


def test_a_batch_with_too_few_results_is_tried_record_by_record_too() -> None:
    service = batches()
    first, *rest = [service.submit() for _ in range(3)]
    end(service, first, ["a"])
    end(service, rest[0], ["only one"])
    assert sizes(service) == [1, 2, 1]
    assert "1 results for 2 values" in str(rest[0].error)


def test_the_good_ones_of_a_failed_batch_do_not_run_out_of_time_while_each_is_tried_alone() -> None:
    service = batches(max_records=100, calls=ps.Calls(max_in_flight=1, timeout_ms=1000))
    first, *rest = [service.submit(value=number) for number in range(101)]
    end(service, first, ["a"])
    service.tick(900)
    end(service, rest[0], ValueError("one of these is bad"))
    for element in rest:
        service.tick(900)
        end(service, element, ValueError("bad") if element is rest[7] else ["good"])
    assert [element for element in rest if element.state != DONE] == [rest[7]]


def test_a_batch_that_gets_an_answer_ends_the_probe_of_the_breaker() -> None:
    retry = ps.Retry(tries=1, retryable=lambda error: isinstance(error, OSError))
    service = batches(calls=ps.Calls(max_in_flight=1, retry=retry, breaker=ps.Breaker(failures=1, open_ms=100)))
    first, *rest = [service.submit() for _ in range(4)]
    end(service, first, OSError("down"))
    service.tick(100)
    end(service, rest[0], ValueError("the service has answered: one of these is bad"))
    for element in rest:
        end(service, element, ["good"])
    assert service.gone == [first, *rest]


def test_a_batch_that_succeeds_closes_the_breaker() -> None:
    service = batches(calls=ps.Calls(max_in_flight=2, breaker=ps.Breaker(failures=1, open_ms=100)))
    end(service, service.submit(), OSError("down"))
    rest = [service.submit() for _ in range(2)]
    service.tick(100)
    end(service, rest[0], ["good"] * len(service.open[rest[0].number]))
    assert service.machine.breaker_state.name == "CLOSED"


def test_many_elements_of_failed_batches_may_run_out_of_time_together() -> None:
    most = 3000
    calls = ps.Calls(max_in_flight=1, timeout_ms=1000, retry=ps.Retry(tries=2, backoff_ms=500, factor=1))
    service = batches(max_records=most, calls=calls)
    first, *rest = [service.submit() for _ in range(most + 1)]
    end(service, first, ["a"])
    end(service, rest[0], ValueError("bad"))
    for element in rest:
        end(service, element, ValueError("bad"))
    service.tick(500)
    service.tick(1000)
    assert [type(element.error) for element in service.gone[1:]] == [ps.CallTimeoutError] * most


def test_all_of_a_batch_that_lasts_too_long_time_out() -> None:
    service = batches(calls=ps.Calls(max_in_flight=1, timeout_ms=100))
    first, *rest = [service.submit() for _ in range(3)]
    end(service, first, ["a"])
    service.tick(100)
    assert [type(element.error) for element in rest] == [ps.CallTimeoutError] * 2
    assert service.gone == [first, *rest]


# ---- in a task ----


def bench(function: Callable[[Any], Any], config: dict[str, Any] | None = None, **options: Any) -> Any:
    builder, calls = ps.StreamsBuilder(), HeldCalls()
    builder.stream("in", IN).map_batch(function, **options).to("out", OUT)
    return Bench(builder, config, call_runner=calls), calls


def play(one: Bench, calls: HeldCalls, *rows: tuple[str, str, int]) -> list[bytes | None]:
    one.add("in", *rows)
    one.run()
    now_ms = 0.0
    for _ in range(50):
        one.task.step_calls(now_ms, 0)
        if calls.open:
            calls.end(calls.open[0].arguments[0])
        now_ms += 10
    return [sent.value for sent in one.collector.take()]


def upper(values: list[str]) -> list[str]:
    if "bad" in values:
        raise ValueError("cannot do bad")
    return [value.upper() for value in values]


def test_results_go_to_their_records_and_the_bad_one_to_the_handler() -> None:
    handler = Resume()
    one, calls = bench(upper, {"processing.exception.handler": handler}, max_records=10)
    found = play(one, calls, ("k", "a", 0), ("k", "bad", 0), ("k", "c", 0))
    assert found == [b"A", b"C"]
    assert [caught.context.offset for caught in handler.caught] == [1]


def test_arrow_tables_have_the_fields_of_dicts_as_columns() -> None:
    pa = pytest.importorskip("pyarrow")
    compute = pytest.importorskip("pyarrow.compute")
    seen: list[Any] = []

    def double(table: Any) -> Any:
        seen.append(table.column_names)
        return compute.multiply(table["amount"], 2)

    builder = ps.StreamsBuilder()
    amounts = builder.stream("in", IN).map_values(lambda value: {"amount": int(value)})
    amounts.map_batch(double, arrow=True).map_values(str).to("out", OUT)
    with ps.TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", STRINGS, STRINGS).pipe_input("k", "21")
        assert driver.create_output_topic("out", STRINGS, STRINGS).read_value() == "42"
    assert seen == [["amount"]]
    assert pa


def test_a_result_that_is_no_list_is_explained() -> None:
    builder = ps.StreamsBuilder()
    builder.stream("in", IN).map_batch(lambda values: WRONG).to("out", OUT)
    with (
        ps.TopologyTestDriver(builder.build()) as driver,
        pytest.raises(ProcessingError, match=r"map_batch got 'wrong' .* from its function: return a list"),
    ):
        driver.create_input_topic("in", STRINGS, STRINGS).pipe_input("k", "a")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_records": 0}, "max_records must be a whole number from 1 on"),
        ({"max_wait_ms": -1}, "max_wait_ms must be a whole number of ms from 0 on"),
        ({"calls": ps.Calls(collapse=True)}, "no two of its calls are equal"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        ps.StreamsBuilder().stream("in", IN).map_batch(upper, **options)


def test_a_function_for_a_batch_gets_no_context() -> None:
    with pytest.raises(TopologyError, match="has no CallContext"):
        ps.StreamsBuilder().stream("in", IN).map_batch(lambda values, context: values)
