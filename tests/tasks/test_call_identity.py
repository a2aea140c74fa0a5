"""Identity of records and calls: one key, equal calls, and the keys by which a service knows a call again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

import penstock as ps
from penstock.tasks.calls.equality import chain_of, digest, same_of
from tests.tasks.bench import Bench, Resume
from tests.tasks.test_calls import LONGS, OUT, STRINGS, bench, step


class Mutable:
    """Has an ``__eq__``, so that it has no hash, and nothing else: its ``repr`` is its address."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mutable) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]  # as Python itself does


class Plain:
    """Compares by identity."""

    def __init__(self, value: Any) -> None:
        self.value = value


@dataclass
class Order:
    number: int
    note: str = field(default="", repr=False)


@pytest.mark.parametrize(
    ("one", "equal", "other"),
    [
        (Mutable("a"), Mutable("a"), Mutable("b")),
        (Plain("a"), Plain("a"), Plain("b")),
        (Order(1, "x"), Order(1, "x"), Order(1, "y")),
        ({"a": [1, {2}]}, {"a": [1, {2}]}, {"a": [1, {3}]}),
        ((1, Plain(2)), (1, Plain(2)), (1, Plain(3))),
        ({"n": 1}, {"n": 1}, {"n": 1.0}),
        (1, 1, True),
        ([1], [1], (1,)),
    ],
)
def test_equal_values_are_one_and_no_others(one: Any, equal: Any, other: Any) -> None:
    assert chain_of(one) == chain_of(equal) != chain_of(other)
    assert same_of(one) == same_of(equal) != same_of(other)
    assert hash(same_of(one)) == hash(same_of(equal))


def test_large_arrays_that_print_alike_are_not_equal() -> None:
    np = pytest.importorskip("numpy")
    one, other = np.arange(5000), np.arange(5000)
    other[2500] = 0
    assert same_of(one) == same_of(np.arange(5000)) != same_of(other)


def test_what_cannot_be_compared_shares_no_call_and_waits_for_all_of_its_type() -> None:
    def one() -> None: ...

    held = Mutable(one)
    assert same_of(held) is None
    assert chain_of(held) == chain_of(Mutable(one))


def test_a_digest_does_not_depend_on_which_parts_are_the_same_object() -> None:
    text = "".join(["a", "b"])
    assert digest((text, text)) == digest(("ab", "".join(["a", "b"])))
    assert digest("a") != digest("b")


# ---- keys of calls ----


class Noted:
    """A function that calls out, and notes by which keys it was called."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, str]] = []

    def __call__(self, value: Any, context: ps.CallContext) -> str:
        self.seen.append((value, context.idempotency_key))
        return str(value)

    @property
    def keys(self) -> list[str]:
        return [key for _, key in self.seen]


class Ticks(ps.Processor[str, str, str, str]):
    """Forwards its records, and one record each time that its punctuator is called."""

    def init(self, context: ps.ProcessorContext[str, str]) -> None:
        self.context = context
        context.schedule(10, ps.PunctuationType.STREAM_TIME, self.tick)

    def tick(self, now_ms: int) -> None:
        self.context.forward(ps.Record("tick", "tick", 0))

    def process(self, record: ps.Record[str, str]) -> None:
        self.context.forward(record)


def test_calls_from_punctuators_have_keys_of_their_own() -> None:
    note = Noted()
    one, calls = bench(lambda stream: stream.process(Ticks).map_values_async(note, named="call").to("out", OUT))
    for time in (0, 20, 40):
        one.feed("in", ("k", "a", time))
        for _ in range(3):
            step(one)
            calls.end(*calls.values)
    assert [value for value, _ in note.seen].count("tick") == 3
    assert len(set(note.keys)) == len(note.keys) == 6


def flushed(*rows: tuple[str, str, int]) -> dict[Any, str]:
    """Returns the keys of the calls about the windows that one flush releases after these records."""
    seen: dict[Any, str] = {}

    def note(value: int, context: ps.CallContext) -> str:
        seen[context.key.window.start] = context.idempotency_key
        return str(value)

    def build(stream: ps.KStream[str, str]) -> object:
        counts = (
            stream.group_by_key(ps.Grouped.with_(STRINGS, STRINGS))
            .windowed_by(ps.TimeWindows.of_size_with_no_grace(20).advance_by(10))
            .count(ps.Materialized.as_("counts").with_key_serde(STRINGS).with_value_serde(LONGS))
        )
        return (
            counts.to_stream()
            .map_values_async(note, ps.Calls(order="none"), named="call")
            .for_each(lambda key, value: None)
        )

    one, calls = bench(build)
    one.feed("in", *rows)
    for _ in one.task.take_snapshot():
        one.task.step_calls(0.0, 0)
        calls.end(*calls.values)
    return seen


def test_after_a_crash_an_update_has_its_key_again_although_others_are_flushed_with_it() -> None:
    before, after = flushed(("a", "x", 15)), flushed(("a", "x", 15), ("a", "y", 5))
    assert before.keys() == after.keys() == {0, 10}
    assert after[10] == before[10]
    assert after[0] not in before.values()
    assert "/call/in/0/0/" in before[10]


# ---- errors of penstock in a call ----


def ended_with(error: Exception) -> tuple[Bench, Resume]:
    """Returns a task in which a call has ended with ``error``, and its handler."""
    handler = Resume()

    def fail(value: str) -> str:
        raise error

    one, calls = bench(
        lambda stream: stream.map_values_async(fail).to("out", OUT), {"processing.exception.handler": handler}
    )
    one.feed("in", ("k", "a", 0))
    step(one)
    calls.end("a")
    return one, handler


def test_an_error_of_penstock_that_a_call_raises_goes_to_the_handler_too() -> None:
    one, handler = ended_with(ps.StreamsError("the store is not there"))
    step(one)
    assert [str(caught.error) for caught in handler.caught] == ["the store is not there"]


def test_a_retriable_error_of_a_call_takes_the_task_back_and_asks_no_handler() -> None:
    one, handler = ended_with(ps.RetriableError("the registry does not answer"))
    with pytest.raises(ps.RetriableError):
        step(one)
    assert handler.caught == []
