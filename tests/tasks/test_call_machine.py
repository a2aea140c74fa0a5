"""The machine that decides about calls."""

from __future__ import annotations

from typing import Any

import penstock as ps
from penstock.tasks.calls.element import DONE, FAILED, Element
from penstock.tasks.calls.machine import CallMachine


class Service:
    """A machine with a clock and a service of the test's: it holds the tries that were begun, and those given up."""

    def __init__(
        self, calls: ps.Calls | None = None, *, in_order: bool = False, machine: CallMachine | None = None
    ) -> None:
        self.machine = machine or CallMachine(calls or ps.Calls(), in_order=in_order)
        self.now = 0.0
        self.open: dict[int, Any] = {}
        self.cancelled: set[int] = set()
        self.gone: list[Element] = []

    def submit(self, key: Any = None, value: Any = None, size: int = 0) -> Element:
        element = Element(key, value, 0, offset=len(self.gone), size=size, chain=key, same=value)
        self.machine.submit(element)
        self.tick()
        return element

    def tick(self, ms: float = 0.0) -> None:
        self.now += ms
        self.machine.tick(self.now)
        self.take()

    def take(self) -> None:
        for start in self.machine.to_start:
            if start.number in self.machine.running:
                self.open[start.number] = start.element
        self.machine.to_start.clear()
        self.cancelled.update(self.machine.to_cancel)
        self.machine.to_cancel.clear()
        self.gone += self.machine.ended()

    def answer(self, element: Element, result: Any = "done") -> None:
        number = element.number
        if isinstance(result, Exception):
            self.machine.failed(number, result, self.now)
        else:
            self.machine.succeeded(number, result, self.now)
        self.tick()

    @property
    def running(self) -> list[Element]:
        return list(self.machine.running.values())


def test_calls_begin_up_to_the_limit_and_twice_as_many_elements_are_held() -> None:
    service = Service(ps.Calls(max_in_flight=2))
    elements = [service.submit() for _ in range(4)]
    assert service.running == elements[:2]
    assert service.machine.room == 0
    service.answer(elements[1])
    assert service.running == [elements[0], elements[2]]
    assert service.machine.room > 0


def test_large_elements_fill_the_operator_before_many_do() -> None:
    service = Service(ps.Calls(max_bytes=1000))
    service.submit(size=999)
    assert service.machine.room > 0
    element = service.submit(size=1)
    assert service.machine.room == 0
    service.answer(element)
    assert service.machine.room > 0


def test_elements_of_one_key_run_one_after_the_other_and_others_overtake() -> None:
    service = Service()
    first, second, other = service.submit("a"), service.submit("a"), service.submit("b")
    assert service.running == [first, other]
    service.answer(other)
    service.answer(first)
    assert service.running == [second]
    service.answer(second)
    assert service.gone == [other, first, second]


def test_results_in_order_wait_for_those_before_them() -> None:
    service = Service(ps.Calls(order="partition"), in_order=True)
    first, second = service.submit(), service.submit()
    service.answer(second)
    assert service.gone == []
    service.answer(first, ValueError("no"))
    assert service.gone == [first, second]
    assert [each.state for each in service.gone] == [FAILED, DONE]


def test_a_time_out_covers_all_tries() -> None:
    service = Service(ps.Calls(timeout_ms=1000, retry=ps.Retry(tries=100, backoff_ms=300, factor=1.0)))
    element = service.submit()
    while element not in service.gone:
        assert service.now <= 1000
        if element.number in service.machine.running:
            service.answer(element, ValueError("again"))
        service.tick(50)
    assert isinstance(element.error, ValueError | ps.CallTimeoutError)
    assert 3 <= element.tries <= 5


def test_a_call_that_lasts_too_long_is_given_up_and_its_late_result_ignored() -> None:
    service = Service(ps.Calls(timeout_ms=100))
    element = service.submit()
    service.tick(100)
    assert service.gone == [element]
    assert service.cancelled == {element.number}
    assert "no result within 100 ms (1 try)" in str(element.error)
    service.answer(element, "late")
    assert service.gone == [element]
    assert isinstance(element.error, ps.CallTimeoutError)
    assert service.machine.counts.late == 1


def test_a_time_out_in_a_pause_between_tries_ends_the_element_and_names_the_last_error() -> None:
    service = Service(ps.Calls(timeout_ms=1000, retry=ps.Retry(tries=5, backoff_ms=500)))
    element = service.submit()
    service.tick(500)
    service.answer(element, ValueError("first"))
    service.tick(600)
    assert service.gone == [element]
    assert element.tries == 1
    service.tick(10_000)
    assert service.gone == [element]


def test_a_try_that_would_begin_after_the_time_out_is_not_waited_for() -> None:
    service = Service(ps.Calls(timeout_ms=1000, retry=ps.Retry(tries=5, backoff_ms=5000)))
    element = service.submit()
    service.answer(element, ValueError("the reason"))
    assert service.gone == [element]
    assert str(element.error) == "the reason"


def test_what_times_out_while_it_waits_for_its_next_try_is_not_tried_again() -> None:
    service = Service(ps.Calls(max_in_flight=1, timeout_ms=1000, retry=ps.Retry(tries=5, backoff_ms=100)))
    first = service.submit()
    service.tick(500)
    service.answer(first, ValueError("again"))
    other = service.submit()
    assert service.running == [other]
    service.tick(100)  # the next try of the first is due, and there is no room for it
    service.tick(400)
    assert service.gone == [first]
    service.answer(other)
    assert service.running == []
    assert service.gone == [first, other]


def test_an_error_that_is_not_worth_a_try_fails_at_once() -> None:
    retry = ps.Retry(tries=5, retryable=lambda error: isinstance(error, OSError))
    service = Service(ps.Calls(retry=retry))
    element = service.submit()
    service.answer(element, ValueError("bad input"))
    assert service.gone == [element]


def test_pauses_grow_and_are_those_that_the_service_asks_for() -> None:
    class BusyError(Exception):
        retry_after = 2.5

    service = Service(ps.Calls(timeout_ms=100_000, retry=ps.Retry(tries=4, backoff_ms=100, factor=10)))
    element = service.submit()
    due = []
    for error in (ValueError(), BusyError(), ValueError()):
        service.answer(element, error)
        due.append(service.machine.next_due_ms() - service.now)
        service.tick(due[-1])
    assert 80 <= due[0] <= 100
    assert due[1] == 2500
    assert 8000 <= due[2] <= 10_000


def test_a_call_may_be_tried_for_days() -> None:
    service = Service(ps.Calls(timeout_ms=10**9, retry=ps.Retry(tries=100_000, backoff_ms=1, max_backoff_ms=50)))
    element = service.submit()
    for _ in range(1_100):  # 2.0 ** 1024 is no float
        service.answer(element, OSError("away"))
        service.tick(50)
    assert service.running == [element]


def test_a_rate_spreads_calls_over_time() -> None:
    service = Service(ps.Calls(max_rate=10))
    for _ in range(5):
        service.submit()
    begun: list[float] = []
    for _ in range(1000):
        begun += [service.now] * (len(service.open) - len(begun))
        service.tick(1)
    assert begun == [0, 100, 200, 300, 400]


def test_a_breaker_opens_after_failures_tries_one_call_and_closes_after_its_success() -> None:
    service = Service(ps.Calls(breaker=ps.Breaker(failures=2, open_ms=1000)))
    for _ in range(2):
        service.answer(service.submit(), OSError("down"))
    assert service.machine.breaker_state.name == "OPEN"
    waiting = [service.submit() for _ in range(3)]
    assert service.running == []
    service.tick(1000)
    assert service.running == waiting[:1]
    service.answer(waiting[0], OSError("still down"))
    service.tick(999)
    assert service.running == []
    service.tick(1)
    service.answer(waiting[1])
    assert service.machine.breaker_state.name == "CLOSED"
    assert service.running == waiting[2:]


def test_calls_outlast_an_outage_for_which_tries_and_time_suffice() -> None:
    """The options are those of docs/CALLS.md, "While the service is away"."""
    calls = ps.Calls(
        timeout_ms=3_600_000,
        retry=ps.Retry(tries=100_000, max_backoff_ms=5_000),
        breaker=ps.Breaker(failures=10, open_ms=5_000),
    )
    service = Service(calls)
    elements = [service.submit() for _ in range(200)]
    while service.now < 1_800_000:
        for element in service.running:
            service.answer(element, OSError("away"))
        service.tick(500)
    assert service.gone == []
    assert service.machine.counts.calls < 100 + 1_800 / 5 + 10  # one at a time, once the breaker is open
    while not service.machine.running:
        service.tick(500)
    while service.running:
        for element in service.running:
            service.answer(element)
        service.tick(5_000)
    assert [element.state for element in service.gone] == [DONE] * len(elements)


def test_time_outs_open_the_breaker() -> None:
    service = Service(ps.Calls(timeout_ms=100, breaker=ps.Breaker(failures=1)))
    service.submit()
    service.tick(100)
    assert service.machine.breaker_state.name == "OPEN"


def test_errors_that_are_answers_do_not_open_the_breaker() -> None:
    retry = ps.Retry(retryable=lambda error: isinstance(error, OSError))
    service = Service(ps.Calls(retry=retry, breaker=ps.Breaker(failures=1)))
    service.answer(service.submit(), ValueError("no such customer"))
    assert service.machine.breaker_state.name == "CLOSED"


def test_equal_calls_share_the_one_that_runs() -> None:
    service = Service(ps.Calls(collapse=True))
    elements = [service.submit(value="same") for _ in range(3)]
    other = service.submit(value="other")
    assert service.running == [elements[0], other]
    service.answer(elements[0], "answer")
    assert [each.result for each in service.gone] == ["answer"] * 3
    assert service.machine.counts.calls == 2
    assert service.submit(value="same") in service.running


def test_elements_that_share_a_call_fail_with_it() -> None:
    service = Service(ps.Calls(collapse=True, timeout_ms=10))
    elements = [service.submit(value="same") for _ in range(2)]
    service.tick(10)
    assert service.gone == elements
    assert all(isinstance(each.error, ps.CallTimeoutError) for each in elements)


def test_a_cache_answers_equal_calls_until_its_time_is_over() -> None:
    service = Service(ps.Calls(cache=ps.Cache(ttl_ms=100, max_entries=2)))
    service.answer(service.submit(value="a"), "A")
    assert service.submit(value="a").result == "A"
    service.tick(100)
    again = service.submit(value="a")
    assert again in service.running
    service.answer(again, OSError("not kept"))
    assert service.submit(value="a") in service.running


def test_a_full_cache_forgets_what_was_used_longest_ago() -> None:
    service = Service(ps.Calls(cache=ps.Cache(max_entries=2)))
    for value in ("a", "b"):
        service.answer(service.submit(value=value), value)
    service.submit(value="a")
    service.answer(service.submit(value="c"), "c")
    assert service.submit(value="a").state == DONE
    assert service.submit(value="b") in service.running
