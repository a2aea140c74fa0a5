"""The arguments that a user function takes decide if it gets the key."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import lru_cache, partial, wraps
from typing import Any

import pytest

import penstock as ps
from penstock.common.errors import ConfigError, ProcessingError, TopologyError
from penstock.topology.arity import checked_function, takes_key


class Scaler:
    """A function with state."""

    def __call__(self, key: str, value: int) -> int:
        return value

    def by_value(self, value: int) -> int:
        return value


def three(key: str, left: int, right: int) -> int:
    return left + right


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda value: value, False),
        (lambda key, value: value, True),
        (lambda value, base=10: value, False),
        (lambda key, value, base=10: value, True),
        (lambda *arguments: arguments, False),
        (str.upper, False),
        (len, False),
        (int, False),
        (dict.get, True),
        (Scaler(), True),
        (Scaler().by_value, False),
        (partial(three, "k", 1), False),
    ],
)
def test_a_mapper_gets_the_key_when_it_needs_two_arguments(function: Callable[..., Any], expected: bool) -> None:
    assert takes_key(function, "map_values: mapper", "value") is expected


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda value: value, False),
        (lambda key, value: value, True),
        (lambda value, limit=10: value, False),
        (lambda key, value, limit=10: value, True),
        (lambda *arguments: arguments, True),
        (lambda key, *rest: rest, True),
        (print, True),
        (bool, False),
        (str.isalpha, False),
        (Scaler(), True),
        (Scaler().by_value, False),
        (partial(three, "k", 1), False),
    ],
)
def test_a_predicate_or_an_action_that_takes_any_number_of_arguments_gets_the_key_too(
    function: Callable[..., Any], expected: bool
) -> None:
    given = takes_key(function, "peek: action", "value", key_if_any_number=True)
    assert given is expected


def test_a_joiner_gets_the_key_when_it_needs_three_arguments() -> None:
    assert takes_key(three, "join: joiner", "value", "other")
    assert not takes_key(lambda left, right: left, "join: joiner", "value", "other")


@pytest.mark.parametrize("function", [lambda: 0, three, lambda *, value: value])
def test_a_function_that_takes_neither_number_is_refused_with_both_numbers(function: Callable[..., Any]) -> None:
    with pytest.raises(TopologyError, match=r"map_values takes f\(value\) or f\(key, value\) as its mapper; yours"):
        takes_key(function, "map_values: mapper", "value")


def test_an_object_that_cannot_be_called_is_refused_by_name_and_type() -> None:
    with pytest.raises(TopologyError, match=r"map_values: mapper must be callable, not 'upper' \(str\)"):
        takes_key("upper", "map_values: mapper", "value")


Program = Callable[[Any, Any], object]
"""A program that is made of a stream and the function under test."""

CALLS: dict[str, tuple[int, Program]] = {
    "filter": (1, lambda s, f: s.filter(f)),
    "filter_not": (1, lambda s, f: s.filter_not(f)),
    "map": (2, lambda s, f: s.map(f)),
    "select_key": (1, lambda s, f: s.select_key(f)),
    "peek": (1, lambda s, f: s.peek(f)),
    "for_each": (1, lambda s, f: s.for_each(f)),
    "branch": (1, lambda s, f: s.split().branch(f)),
    "filter of a table": (1, lambda s, f: s.to_table().filter(f)),
    "filter_not of a table": (1, lambda s, f: s.to_table().filter_not(f)),
    "Branched": (1, lambda s, f: ps.Branched.with_function(f)),
    "group_by": (1, lambda s, f: s.group_by(f)),
    "reduce": (2, lambda s, f: s.group_by_key().reduce(f)),
    "aggregate": (3, lambda s, f: s.group_by_key().aggregate(list, f)),
    "to_stream": (1, lambda s, f: s.to_table().to_stream(f)),
    "to": (3, lambda s, f: s.to(f)),
    "Produced": (4, lambda s, f: ps.Produced.with_(partitioner=f)),
    "Repartitioned": (4, lambda s, f: ps.Repartitioned.as_("r").with_stream_partitioner(f)),
    "Consumed": (4, lambda s, f: ps.Consumed.with_(timestamp_extractor=f)),
    "map_values": (1, lambda s, f: s.map_values(f)),
    "join": (2, lambda s, f: s.join(ps_table(s), f)),
    "left_join": (2, lambda s, f: s.left_join(ps_table(s), f)),
}
FLAT: dict[str, tuple[int, Program]] = {
    "flat_map": (2, lambda s, f: s.flat_map(f)),
    "flat_map_values": (1, lambda s, f: s.flat_map_values(f)),
}
BOTH = {"filter", "filter_not", "peek", "for_each", "branch", "select_key", "group_by", "to_stream"} | {
    "filter of a table",
    "filter_not of a table",
}
"""Calls that take f(value) and f(key, value)."""
WITH_KEY = {"map_values", "flat_map_values", "join", "left_join", *BOTH}


def method(call: str) -> str:
    """Returns the name of the method itself."""
    return call.partition(" of ")[0]


def ps_table(stream: Any) -> Any:
    return stream.to_table()


def of_arity(count: int) -> Callable[..., Any]:
    """A function of exactly ``count`` arguments."""
    names = ", ".join(f"a{number}" for number in range(count))
    return eval(f"lambda {names}: None")  # type: ignore[no-any-return]  # made of text: mypy cannot know


def the_stream() -> ps.KStream[Any, Any]:
    return ps.StreamsBuilder().stream("in")


async def wait(*given: object) -> bool:
    return False


async def trickle(*given: object) -> AsyncIterator[int]:
    yield 1


def yields(*given: object) -> Iterator[int]:
    yield 1


class Waiting:
    async def __call__(self, *given: object) -> bool:
        return False

    async def method(self, *given: object) -> bool:
        return False


class Yielding:
    def __call__(self, *given: object) -> Iterator[int]:
        yield 1


ASYNC = [wait, trickle, partial(wait, 1), partial(partial(wait)), Waiting(), partial(Waiting()), Waiting().method]


@pytest.mark.parametrize("call", [*CALLS, *FLAT])
@pytest.mark.parametrize("function", ASYNC)
def test_an_async_function_is_refused_wherever_a_function_is_given(call: str, function: Any) -> None:
    with pytest.raises(TopologyError, match=rf"^{method(call)}: .* is async: it would not be awaited"):
        {**CALLS, **FLAT}[call][1](the_stream(), function)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("function", [yields, partial(yields, 1), Yielding()])
def test_a_generator_function_is_refused_where_one_result_is_needed(call: str, function: Any) -> None:
    with pytest.raises(TopologyError, match=rf"^{method(call)}: .* is a generator function"):
        CALLS[call][1](the_stream(), function)


@pytest.mark.parametrize("call", FLAT)
@pytest.mark.parametrize("function", [yields, partial(yields, 1), Yielding()])
def test_a_generator_function_is_right_where_any_number_of_results_is_wanted(call: str, function: Any) -> None:
    FLAT[call][1](the_stream(), function)


@pytest.mark.parametrize("call", [*CALLS, *FLAT])
def test_a_function_of_the_wrong_arity_is_refused_with_what_is_accepted(call: str) -> None:
    right, program = {**CALLS, **FLAT}[call]
    for count in range(6):
        if count == right or (call in WITH_KEY and count == right + 1):
            program(the_stream(), of_arity(count))
            continue
        plural = "" if count == 1 else "s"
        with pytest.raises(TopologyError, match=rf"^{method(call)} takes f\(.*yours takes {count} argument{plural}: "):
            program(the_stream(), of_arity(count))


def test_the_message_shows_both_signatures() -> None:
    def big(value: int) -> bool:
        return value > 9

    with pytest.raises(TopologyError) as refused:
        the_stream().map(big)  # type: ignore[arg-type]  # the error is the point
    assert str(refused.value) == (
        "map takes f(key, value) as its mapper; yours takes 1 argument: "
        "test_the_message_shows_both_signatures.<locals>.big(value: 'int') -> 'bool'"
    )


@pytest.mark.parametrize("initializer", [of_arity(1), of_arity(2)])
def test_an_initializer_takes_nothing(initializer: Any) -> None:
    with pytest.raises(TopologyError, match=r"^aggregate takes f\(\) as its initializer; yours takes . argument"):
        the_stream().group_by_key().aggregate(initializer, lambda k, v, a: a)


@pytest.mark.parametrize("initializer", [int, list, dict, set, str, float, lambda: 0, partial(dict, n=0)])
def test_types_and_partials_are_initializers(initializer: Any) -> None:
    the_stream().group_by_key().aggregate(initializer, lambda k, v, a: a)


def test_a_builtin_without_a_signature_is_accepted() -> None:
    the_stream().group_by_key().reduce(max)
    checked_function(dict, "x: y", "one", "two", "three")


def test_required_keyword_parameters_of_a_function_are_reported() -> None:
    def named(key: str, value: int, *, limit: int) -> bool:
        return value > limit

    with pytest.raises(TopologyError, match=r"yours takes 2 arguments and needs limit by name"):
        the_stream().filter(named)  # type: ignore[arg-type]  # the error is the point
    the_stream().filter(partial(named, limit=3))


def test_a_decorator_that_supplies_an_argument_is_believed() -> None:
    def with_limit(function: Callable[[str, int, int], bool]) -> Callable[[str, int], bool]:
        @wraps(function)
        def run(*given: Any) -> bool:
            return function(*(*given, 3))

        return run

    @with_limit
    def more(key: str, value: int, limit: int) -> bool:
        return value > limit

    the_stream().filter(more)


def test_a_cached_function_is_counted_as_the_function_it_caches() -> None:
    @lru_cache
    def one(value: int) -> int:
        return value

    with pytest.raises(TopologyError, match="yours takes 1 argument"):
        the_stream().map(one)  # type: ignore[arg-type]  # the error is the point


class AsyncProcessor(ps.Processor[Any, Any, Any, Any]):
    async def process(self, record: Any) -> None:  # type: ignore[override]  # the error is the point
        pass


class TwoArguments(ps.Processor[Any, Any, Any, Any]):
    def process(self, key: Any, value: Any) -> None:  # type: ignore[override]  # the error is the point
        pass


def a_supplier(context: Any) -> ps.Processor[Any, Any, Any, Any]:
    return TwoArguments()


@pytest.mark.parametrize(
    ("supplier", "message"),
    [
        (AsyncProcessor, r"process: AsyncProcessor\.process must be a plain function; .* is async"),
        (TwoArguments, r"process takes f\(record\) as its TwoArguments\.process; yours takes 2 arguments"),
        (a_supplier, r"process takes f\(\) as its supplier; yours takes 1 argument"),
        (wait, r"process: supplier must be a plain function"),
    ],
)
def test_suppliers_and_the_methods_of_processors_are_checked(supplier: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=f"^{message}"):
        the_stream().process(supplier)


@pytest.mark.parametrize("punctuator", [wait, yields, of_arity(0), of_arity(2)])
def test_a_punctuator_is_checked_when_it_is_scheduled(punctuator: Any) -> None:
    class Ticks(ps.Processor[Any, Any, Any, Any]):
        def init(self, context: ps.ProcessorContext[Any, Any]) -> None:
            context.schedule(10, ps.PunctuationType.STREAM_TIME, punctuator)

        def process(self, record: Any) -> None:
            pass

    builder = ps.StreamsBuilder()
    builder.stream("in", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string())).process(Ticks)
    with pytest.raises(ProcessingError, match=r"schedule(: punctuator must be| takes f\(now_ms\))"):
        ps.TopologyTestDriver(builder.build())


@pytest.mark.parametrize(
    ("key", "count"),
    [
        ("default.timestamp.extractor", 4),
    ],
)
def test_functions_of_the_configuration_are_checked_when_the_program_starts(key: str, count: int) -> None:
    builder = ps.StreamsBuilder()
    builder.stream("in", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string()))
    ps.TopologyTestDriver(builder.build(), {key: of_arity(count)}).close()
    with pytest.raises(ConfigError, match=rf"^{key} takes f\(.*\); yours takes {count + 1} arguments: "):
        ps.TopologyTestDriver(builder.build(), {key: of_arity(count + 1)})
    with pytest.raises(ConfigError, match=f"^{key} must be a plain function; wait is async"):
        ps.TopologyTestDriver(builder.build(), {key: wait})


@pytest.mark.parametrize("key", ["deserialization", "processing", "production"])
def test_the_methods_of_a_handler_are_checked_when_the_program_starts(key: str) -> None:
    class Short(ps.DeserializationExceptionHandler, ps.ProcessingExceptionHandler, ps.ProductionExceptionHandler):
        def handle_error(self, context: Any, error: Any) -> Any:  # type: ignore[override]
            raise AssertionError

    builder = ps.StreamsBuilder()
    builder.stream("in", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.string()))
    with pytest.raises(
        ConfigError, match=rf"^{key}.exception.handler takes f\(context, record, error\); yours takes 2"
    ):
        ps.TopologyTestDriver(builder.build(), {f"{key}.exception.handler": Short()})


def supplied(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Calls ``function`` with a connection and the value."""

    @wraps(function)
    def run(value: Any) -> Any:
        return function("connection", value)

    return run


def with_connection(connection: str, value: Any) -> Any:
    return connection, value


def test_a_wrapper_with_a_declared_signature_gets_the_arguments_that_it_declares() -> None:
    assert not takes_key(supplied(with_connection), "map_values: mapper", "value")
    with pytest.raises(TopologyError, match=r"map takes .* yours takes 1 argument"):
        the_stream().map(supplied(with_connection))  # type: ignore[arg-type]  # the error is the point


def test_defaults_are_not_compared() -> None:
    class Picky:
        def __eq__(self, other: object) -> bool:
            raise ValueError("the truth of an array is ambiguous")

    def scaled(value: Any, factors: Any = Picky()) -> Any:  # noqa: B008
        return value

    @wraps(scaled)
    def run(*given: Any) -> Any:
        return scaled(*given)

    for function in (scaled, run):
        assert not takes_key(function, "map_values: mapper", "value")
