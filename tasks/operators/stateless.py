"""filter, map, flat_map, branch, peek and similar operators: no state, no clock.

Most have one closure per form of the user's function, with and without the key, so that there is no test per record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.tasks.closures import closure_of
from penstock.tasks.wiring import Edge, StreamEdge, Wiring
from penstock.topology.physical.operators.stateless import (
    Branch,
    BranchCase,
    DropNullKeys,
    Filter,
    FlatMap,
    FlatMapValues,
    ForEach,
    Map,
    MapValues,
    PassThrough,
    Peek,
    SelectKey,
)


@closure_of(Filter)
def _filter(spec: Filter, wiring: Wiring) -> StreamEdge:
    return _filter_with_key(spec, wiring) if spec.with_key else _filter_by_value(spec, wiring)


def _filter_by_value(spec: Filter, wiring: Wiring) -> StreamEdge:
    forward, failed, name, predicate = wiring.forward, wiring.failed, wiring.name, spec.predicate

    def run(key: Any, value: Any, timestamp: int) -> None:
        try:
            keep = predicate(value)
        except Exception as error:
            failed(error, name, key, value, timestamp)
            return
        if keep:
            forward(key, value, timestamp)

    def run_negated(key: Any, value: Any, timestamp: int) -> None:
        try:
            drop = predicate(value)
        except Exception as error:
            failed(error, name, key, value, timestamp)
            return
        if not drop:
            forward(key, value, timestamp)

    return run_negated if spec.negate else run


def _filter_with_key(spec: Filter, wiring: Wiring) -> StreamEdge:
    forward, failed, name, predicate = wiring.forward, wiring.failed, wiring.name, spec.predicate

    def run(key: Any, value: Any, timestamp: int) -> None:
        try:
            keep = predicate(key, value)
        except Exception as error:
            failed(error, name, key, value, timestamp)
            return
        if keep:
            forward(key, value, timestamp)

    def run_negated(key: Any, value: Any, timestamp: int) -> None:
        try:
            drop = predicate(key, value)
        except Exception as error:
            failed(error, name, key, value, timestamp)
            return
        if not drop:
            forward(key, value, timestamp)

    return run_negated if spec.negate else run


@closure_of(DropNullKeys)
def _drop_null_keys(spec: DropNullKeys, wiring: Wiring) -> StreamEdge:
    forward = wiring.forward
    if spec.keep:
        return forward

    def run(key: Any, value: Any, timestamp: int) -> None:
        if key is not None:
            forward(key, value, timestamp)

    return run


@closure_of(MapValues)
def _map_values(spec: MapValues, wiring: Wiring) -> StreamEdge:
    forward, failed, name, mapper = wiring.forward, wiring.failed, wiring.name, spec.mapper

    def run(key: Any, value: Any, timestamp: int) -> None:
        try:
            value = mapper(value)
        except Exception as error:
            failed(error, name, key, value, timestamp)
            return
        forward(key, value, timestamp)

    def run_with_key(key: Any, value: Any, timestamp: int) -> None:
        try:
            value = mapper(key, value)
        except Exception as error:
            failed(error, name, key, value, timestamp)
            return
        forward(key, value, timestamp)

    return run_with_key if spec.with_key else run


@closure_of(Map)
def _map(spec: Map, wiring: Wiring) -> StreamEdge:
    forward, failed, name, mapper = wiring.forward, wiring.failed, wiring.name, spec.mapper

    def run(key: Any, value: Any, timestamp: int) -> None:
        try:
            pair = mapper(key, value)
            if type(pair) is not tuple or len(pair) != 2:
                require_pair("map", "mapper", "return (key, value)", pair)
            new_key, new_value = pair
        except Exception as error:
            failed(error, name, key, value, timestamp)
            return
        forward(new_key, new_value, timestamp)

    return run


def require_pair(call: str, role: str, advice: str, given: Any) -> None:
    """Raises TypeError unless ``given`` is a tuple of two: a text of two letters is no pair, nor is a list."""
    if isinstance(given, tuple) and len(given) == 2:
        return
    what = f"a tuple of {len(given)}" if isinstance(given, tuple) else type(given).__name__
    raise TypeError(f"{call} got {what} from its {role}, {given!r}: {advice}")


def _explained(error: Exception, call: str, wanted: str) -> Exception:
    """Returns ``error``, or an explanation if ``list`` could not run over the mapper's result. The result is looked at
    only after it failed: a check of each would cost every record."""
    here = error.__traceback__ is not None and error.__traceback__.tb_next is None
    if not (here and isinstance(error, TypeError) and str(error).endswith(" object is not iterable")):
        return error
    explained = TypeError(f"{call}: {error}: its mapper must return {wanted}, [] for none")
    explained.__cause__ = error
    return explained


@closure_of(SelectKey)
def _select_key(spec: SelectKey, wiring: Wiring) -> StreamEdge:
    forward, failed, name, mapper = wiring.forward, wiring.failed, wiring.name, spec.mapper

    def run(key: Any, value: Any, timestamp: int) -> None:
        try:
            new_key = mapper(value)
        except Exception as error:
            failed(error, name, key, value, timestamp)
            return
        forward(new_key, value, timestamp)

    def run_with_key(key: Any, value: Any, timestamp: int) -> None:
        try:
            new_key = mapper(key, value)
        except Exception as error:
            failed(error, name, key, value, timestamp)
            return
        forward(new_key, value, timestamp)

    return run_with_key if spec.with_key else run


@closure_of(FlatMap)
def _flat_map(spec: FlatMap, wiring: Wiring) -> StreamEdge:
    """A generator is run to its end before the first of its pairs is forwarded."""
    forward, failed, name, mapper = wiring.forward, wiring.failed, wiring.name, spec.mapper

    def run(key: Any, value: Any, timestamp: int) -> None:
        try:
            pairs = list(mapper(key, value))
            for pair in pairs:
                if type(pair) is not tuple or len(pair) != 2:
                    require_pair("flat_map", "mapper", "return an iterable of pairs (key, value)", pair)
        except Exception as error:
            failed(_explained(error, "flat_map", "an iterable of pairs (key, value)"), name, key, value, timestamp)
            return
        for new_key, new_value in pairs:
            forward(new_key, new_value, timestamp)

    return run


@closure_of(FlatMapValues)
def _flat_map_values(spec: FlatMapValues, wiring: Wiring) -> StreamEdge:
    forward, failed, name, mapper, with_key = (
        wiring.forward,
        wiring.failed,
        wiring.name,
        spec.mapper,
        spec.with_key,
    )

    def run(key: Any, value: Any, timestamp: int) -> None:
        try:
            values = list(mapper(key, value) if with_key else mapper(value))
        except Exception as error:
            failed(_explained(error, "flat_map_values", "an iterable of values"), name, key, value, timestamp)
            return
        for each in values:
            forward(key, each, timestamp)

    return run


@closure_of(Peek)
def _peek(spec: Peek, wiring: Wiring) -> StreamEdge:
    return _call(spec, wiring)


@closure_of(ForEach)
def _for_each(spec: ForEach, wiring: Wiring) -> StreamEdge:
    """An operator that calls the action and has no children."""
    return _call(spec, wiring)


def _call(spec: Peek | ForEach, wiring: Wiring) -> StreamEdge:
    forward, failed, name, action = wiring.forward, wiring.failed, wiring.name, spec.action

    def run(key: Any, value: Any, timestamp: int) -> None:
        try:
            action(value)
        except Exception as error:
            failed(error, name, key, value, timestamp)
            return
        forward(key, value, timestamp)

    def run_with_key(key: Any, value: Any, timestamp: int) -> None:
        try:
            action(key, value)
        except Exception as error:
            failed(error, name, key, value, timestamp)
            return
        forward(key, value, timestamp)

    return run_with_key if spec.with_key else run


@closure_of(PassThrough)
def _pass_through(spec: PassThrough, wiring: Wiring) -> StreamEdge:
    """Returns the closure of the children: nothing is between them and the parents."""
    return wiring.forward


@closure_of(Branch)
def _branch(spec: Branch, wiring: Wiring) -> StreamEdge:
    failed, name = wiring.failed, wiring.name
    with_key = any(case.with_key for case in spec.cases)
    cases: list[tuple[Callable[..., bool], Edge]] = [
        (_given_key(case) if with_key else case.predicate, wiring.children[case.child]) for case in spec.cases
    ]
    default = None if spec.default is None else wiring.children[spec.default]

    def run(key: Any, value: Any, timestamp: int) -> None:
        for predicate, edge in cases:
            try:
                holds = predicate(value)
            except Exception as error:
                failed(error, name, key, value, timestamp)
                return
            if holds:
                edge(key, value, timestamp)
                return
        if default is not None:
            default(key, value, timestamp)

    def run_with_key(key: Any, value: Any, timestamp: int) -> None:
        for predicate, edge in cases:
            try:
                holds = predicate(key, value)
            except Exception as error:
                failed(error, name, key, value, timestamp)
                return
            if holds:
                edge(key, value, timestamp)
                return
        if default is not None:
            default(key, value, timestamp)

    return run_with_key if with_key else run


def _given_key(case: BranchCase) -> Callable[[Any, Any], bool]:
    predicate = case.predicate
    return predicate if case.with_key else lambda key, value: predicate(value)
