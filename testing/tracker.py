"""Watches functions of the program: checks at each call that it has not changed what it was given."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.common.calls_at_once import is_awaited
from penstock.common.errors import RuleBrokenError
from penstock.common.extractors import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    UsePartitionTimeOnInvalidTimestamp,
)
from penstock.common.functions import place_of
from penstock.common.shown import shown
from penstock.testing.object_forms import NEVER_CHANGE, form
from penstock.testing.tracked_processor import tracked_processor
from penstock.topology.physical.operators.operator import KEY, VALUE, Operator, UserFunction
from penstock.topology.physical.operators.process import Process
from penstock.topology.physical.topology import Node, ProcessorNode, SinkNode, Subtopology

Function = Callable[..., Any]
# They change nothing, and tasks know the first by its type.
_EXTRACTORS = (FailOnInvalidTimestamp, LogAndSkipOnInvalidTimestamp, UsePartitionTimeOnInvalidTimestamp)

_PLAIN_RESULTS = NEVER_CHANGE | {list, tuple, dict}


class Tracker:
    """The objects that one call was given, or handed out, each with what it held at that moment."""

    def __init__(self, who: str) -> None:
        self._who = who
        self._seen: list[tuple[str, Any, Any, str]] = []

    def add(self, what: str, value: Any) -> None:
        """Take note of ``value``, which must stay as it is until :meth:`compare`."""
        self._seen.append((what, value, form(value), shown(value)))

    def compare(self) -> None:
        """Raises RuleBrokenError for the first that changed; forgets them all."""
        seen, self._seen = self._seen, []
        for what, value, before, was in seen:
            if form(value) != before:
                raise RuleBrokenError(
                    f"{self._who} changed {what} in place: {was} became {shown(value)}. The same object is in "
                    "stores and other branches: leave it as it is and return, put or forward a new one "
                    "(docs/PROGRAMS.md, rule 1)"
                )


def tracked_functions(subtopology: Subtopology) -> Subtopology:
    """Returns the sub-topology with functions that are watched."""
    return replace(subtopology, nodes=tuple(map(_tracked_node, subtopology.nodes)))


def _tracked_node(node: Node) -> Node:
    if isinstance(node, ProcessorNode):
        return replace(node, operator=_tracked(node.operator, node.name))
    if isinstance(node, SinkNode):
        who, topic = f"to {node.name}", node.topic
        if not isinstance(topic, str):
            topic = _tracked_function(UserFunction(topic, who, (KEY, VALUE, "the context")))
        names: tuple[str, ...] = ("the topic", KEY, VALUE, "the number of partitions")
        partitioner = node.partitioner and _tracked_function(UserFunction(node.partitioner, who, names))
        return replace(node, topic=topic, partitioner=partitioner)
    extractor = node.timestamp_extractor
    if extractor is None or isinstance(extractor, _EXTRACTORS):
        return node
    names = ("the record", "the timestamp", "the partition's time", "the metadata")
    whose = f"the timestamp extractor of {node.name}"
    return replace(node, timestamp_extractor=_tracked_function(UserFunction(extractor, whose, names)))


def _tracked(operator: Operator, node: str) -> Operator:
    if isinstance(operator, Process):
        supplier, who = operator.supplier, operator.owner(node)
        return replace(operator, supplier=lambda: tracked_processor(supplier(), lambda name: Tracker(f"{who}: {name}")))
    return operator.with_functions(node, _tracked_function)


def _tracked_function(tracked: UserFunction) -> Function:
    """Returns the function, watched; if its result is to be iterated, that is done while it is watched."""
    if tracked.awaited:
        return _tracked_call(tracked)
    function, names, many = tracked.function, tracked.parameters, tracked.many
    who = f"{tracked.owner}: {place_of(function)}"

    def run(*given: Any) -> Any:
        for value in given:
            if type(value) not in NEVER_CHANGE:
                break
        else:
            return checked(function(*given))
        tracker = Tracker(who)
        for name, value in zip(names, given, strict=True):
            tracker.add(name, value)
        try:
            result = function(*given)
            if many:
                result = list(result)
        except Exception:
            tracker.compare()  # a handler may continue after the error, and the change would stay
            raise
        tracker.compare()
        return checked(result)

    def checked(result: Any) -> Any:
        if many and type(result) is not list:
            result = list(result)
        if type(result) in _PLAIN_RESULTS:
            return result
        if inspect.iscoroutine(result):
            result.close()
        if inspect.isawaitable(result) or inspect.isasyncgen(result) or inspect.isgenerator(result):
            kind = type(result).__name__
            raise RuleBrokenError(f"{who} returned a {kind}, whose body nothing runs: return the result itself")
        return result

    return run


def _tracked_call(tracked: UserFunction) -> Function:
    """Returns a function that calls out, watched until its result is there."""
    function, who = tracked.function, f"{tracked.owner}: {place_of(tracked.function)}"

    def begin(given: tuple[Any, ...]) -> Tracker:
        tracker = Tracker(who)
        tracker.add("its argument", given[0])  # the other is a context, which nothing else refers to
        return tracker

    async def run_async(*given: Any) -> Any:
        tracker = begin(given)
        try:
            return await function(*given)
        finally:
            tracker.compare()

    def run(*given: Any) -> Any:
        tracker = begin(given)
        result: Any = None
        try:
            result = function(*given)
        finally:
            tracker.compare()
        return result

    return run_async if is_awaited(function) else run
