"""Functions of the program that look, at each call, whether it changed what it was given."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, assert_never

from penstock.common.errors import RuleBrokenError
from penstock.common.extractors import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    UsePartitionTimeOnInvalidTimestamp,
)
from penstock.common.shown import shown
from penstock.testing.snapshots import form
from penstock.testing.watched_processor import WatchedProcessor
from penstock.topology.physical import operators as spec
from penstock.topology.physical.operators import Operator, ValueGetter
from penstock.topology.physical.topology import Node, ProcessorNode, SinkNode, Subtopology

Function = Callable[..., Any]
# They change nothing, and tasks know the first by its type.
_EXTRACTORS = (FailOnInvalidTimestamp, LogAndSkipOnInvalidTimestamp, UsePartitionTimeOnInvalidTimestamp)


class Watch:
    """What one call was given, or handed out, each with what it held at that moment."""

    def __init__(self, who: str) -> None:
        self._who = who
        self._seen: list[tuple[str, Any, Any, str]] = []

    def add(self, what: str, value: Any) -> None:
        """From now on until :meth:`compare` ``value`` must stay as it is."""
        self._seen.append((what, value, form(value), shown(value)))

    def compare(self) -> None:
        """Raises RuleBrokenError for the first that changed; forgets them all."""
        seen, self._seen = self._seen, []
        for what, value, before, was in seen:
            if form(value) != before:
                raise RuleBrokenError(
                    f"{self._who} changed {what} in place: {was} became {shown(value)}. The same object stands in "
                    "stores and other branches: leave it as it is and return, put or forward a new one "
                    "(docs/PROGRAMS.md, rule 1)"
                )


def watched_functions(subtopology: Subtopology) -> Subtopology:
    """The same program with functions that are watched."""
    return replace(subtopology, nodes=tuple(map(_watched_node, subtopology.nodes)))


def _watched_node(node: Node) -> Node:
    if isinstance(node, ProcessorNode):
        return replace(node, operator=_watched(node.operator, node.name))
    if isinstance(node, SinkNode):
        who, names = f"to {node.name}", ("the topic", "the key", "the value", "the number of partitions")
        topic = node.topic if isinstance(node.topic, str) else _watch(node.topic, who, (*names[1:3], "the context"))
        partitioner = node.partitioner and _watch(node.partitioner, who, names)
        return replace(node, topic=topic, partitioner=partitioner)
    extractor = node.timestamp_extractor
    if extractor is None or isinstance(extractor, _EXTRACTORS):
        return node
    names = ("the record", "the timestamp", "the partition's time", "the metadata")
    return replace(node, timestamp_extractor=_watch(extractor, f"the timestamp extractor of {node.name}", names))


def _watched(operator: Operator, node: str) -> Operator:
    key_value = ("the key", "the value")
    match operator:
        case spec.Filter() | spec.TableFilter():
            call = "filter_not" if operator.negate else "filter"
            return replace(operator, predicate=_watch(operator.predicate, f"{call} {node}", key_value))
        case spec.MapValues() | spec.TableMapValues():
            names = _with_key(operator.with_key, "the value")
            return replace(operator, mapper=_watch(operator.mapper, f"map_values {node}", names))
        case spec.FlatMapValues():
            names = _with_key(operator.with_key, "the value")
            return replace(operator, mapper=_watch(operator.mapper, f"flat_map_values {node}", names, many=True))
        case spec.Map():
            return replace(operator, mapper=_watch(operator.mapper, f"map {node}", key_value))
        case spec.SelectKey():
            return replace(operator, mapper=_watch(operator.mapper, f"select_key {node}", key_value))
        case spec.FlatMap():
            return replace(operator, mapper=_watch(operator.mapper, f"flat_map {node}", key_value, many=True))
        case spec.Peek():
            return replace(operator, action=_watch(operator.action, f"peek {node}", key_value))
        case spec.ForEach():
            return replace(operator, action=_watch(operator.action, f"for_each {node}", key_value))
        case spec.Branch():
            predicates = tuple(_watch(each, f"branch {node}", key_value) for each in operator.predicates)
            return replace(operator, predicates=predicates)
        case spec.StreamAggregate():
            return replace(
                operator,
                initializer=_watch(operator.initializer, f"aggregate {node}", ()),
                aggregator=_watch(operator.aggregator, f"aggregate {node}", (*key_value, "the aggregate")),
            )
        case spec.StreamReduce():
            reducer = _watch(operator.reducer, f"reduce {node}", ("the aggregate", "the value"))
            return replace(operator, reducer=reducer)
        case spec.StreamTableJoin():
            names = _with_key(operator.with_key, "the value", "the table's value")
            joiner = _watch(operator.joiner, f"{'left_join' if operator.left else 'join'} {node}", names)
            return replace(operator, joiner=joiner, table=_watched_getter(operator.table, node))
        case spec.Process():
            supplier, who = operator.supplier, f"process {node}"
            return replace(
                operator, supplier=lambda: WatchedProcessor(supplier(), lambda name: Watch(f"{who}: {name}"))
            )
        case spec.DropNullKeys() | spec.PassThrough() | spec.StreamCount() | spec.TableSource() | spec.TableToStream():
            return operator
        case _:
            assert_never(operator)


def _watched_getter(getter: ValueGetter, node: str) -> ValueGetter:
    match getter:
        case spec.FilterGetter():
            predicate = _watch(getter.predicate, f"filter of the table that {node} joins", ("the key", "the value"))
            return replace(getter, source=_watched_getter(getter.source, node), predicate=predicate)
        case spec.MapValuesGetter():
            names = _with_key(getter.with_key, "the value")
            mapper = _watch(getter.mapper, f"map_values of the table that {node} joins", names)
            return replace(getter, source=_watched_getter(getter.source, node), mapper=mapper)
        case spec.StoreGetter():
            return getter
        case _:
            assert_never(getter)


def _with_key(with_key: bool, *names: str) -> tuple[str, ...]:
    return ("the key", *names) if with_key else names


def _watch(function: Function, call: str, names: Iterable[str], many: bool = False) -> Function:
    """``function``, watched; ``many``: its result is iterated to the end while it is watched."""
    who = f"{call}: {_where(function)}"

    def run(*given: Any) -> Any:
        watch = Watch(who)
        for name, value in zip(names, given, strict=True):
            watch.add(name, value)
        try:
            result = function(*given)
            if many:
                result = list(result)
        except Exception:
            watch.compare()  # a handler may go on behind the error, and the change would stay
            raise
        watch.compare()
        if inspect.iscoroutine(result):
            result.close()
        if inspect.isawaitable(result) or inspect.isasyncgen(result) or inspect.isgenerator(result):
            kind = type(result).__name__
            raise RuleBrokenError(f"{who} returned a {kind}, whose body nobody runs: return the result itself")
        return result

    return run


def _where(function: Function) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    name = str(getattr(function, "__qualname__", None) or type(function).__qualname__)
    code = getattr(function, "__code__", None)
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code else name
