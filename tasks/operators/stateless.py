"""filter, map, flat_map, branch, peek and their like: no state, no clock."""

from __future__ import annotations

from typing import Any

from penstock.common.errors import TopologyError
from penstock.tasks.wiring import StreamEdge, Wiring
from penstock.topology.physical.operators import (
    Branch,
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


def filter_(spec: Filter, wiring: Wiring) -> StreamEdge:
    """See :class:`Filter`."""
    forward, failed, name = wiring.forward, wiring.failed, wiring.name
    predicate, negate = spec.predicate, spec.negate

    def run(key: Any, value: Any, timestamp: int) -> None:
        try:
            keep = predicate(key, value)
        except Exception as error:
            failed(error, name, key)
            return
        if keep:
            forward(key, value, timestamp)

    def run_negated(key: Any, value: Any, timestamp: int) -> None:
        try:
            drop = predicate(key, value)
        except Exception as error:
            failed(error, name, key)
            return
        if not drop:
            forward(key, value, timestamp)

    return run_negated if negate else run


def drop_null_keys(spec: DropNullKeys, wiring: Wiring) -> StreamEdge:
    """See :class:`DropNullKeys`."""
    forward = wiring.forward
    if spec.keep:
        return forward

    def run(key: Any, value: Any, timestamp: int) -> None:
        if key is not None:
            forward(key, value, timestamp)

    return run


def map_values(spec: MapValues, wiring: Wiring) -> StreamEdge:
    """See :class:`MapValues`."""
    forward, failed, name, mapper = wiring.forward, wiring.failed, wiring.name, spec.mapper

    def run(key: Any, value: Any, timestamp: int) -> None:
        try:
            value = mapper(value)
        except Exception as error:
            failed(error, name, key)
            return
        forward(key, value, timestamp)

    def run_with_key(key: Any, value: Any, timestamp: int) -> None:
        try:
            value = mapper(key, value)
        except Exception as error:
            failed(error, name, key)
            return
        forward(key, value, timestamp)

    return run_with_key if spec.with_key else run


def map_(spec: Map, wiring: Wiring) -> StreamEdge:
    """See :class:`Map`."""
    forward, failed, name, mapper = wiring.forward, wiring.failed, wiring.name, spec.mapper

    def run(key: Any, value: Any, timestamp: int) -> None:
        try:
            pair = mapper(key, value)
            if type(pair) is not tuple or len(pair) != 2:
                _require_pair("map", "return (key, value)", pair)
            new_key, value = pair
        except Exception as error:
            failed(error, name, key)
            return
        forward(new_key, value, timestamp)

    return run


def _require_pair(call: str, advice: str, given: Any) -> None:
    """Raises TypeError unless ``given`` is a tuple of two: a text of two letters is no pair, nor is a list."""
    if isinstance(given, tuple) and len(given) == 2:
        return
    what = f"a tuple of {len(given)}" if isinstance(given, tuple) else type(given).__name__
    raise TypeError(f"{call} got {what} from its mapper, {given!r}: {advice}")


def _explained(error: Exception, call: str, wanted: str) -> Exception:
    """``error``, or what to return where ``list`` could not run over the mapper's result. Looked at only once it
    failed: a check of each result would cost every record."""
    here = error.__traceback__ is not None and error.__traceback__.tb_next is None
    if not (here and isinstance(error, TypeError) and str(error).endswith(" object is not iterable")):
        return error
    explained = TypeError(f"{call}: {error}: its mapper must return {wanted}, [] for none")
    explained.__cause__ = error
    return explained


def select_key(spec: SelectKey, wiring: Wiring) -> StreamEdge:
    """See :class:`SelectKey`."""
    forward, failed, name, mapper = wiring.forward, wiring.failed, wiring.name, spec.mapper

    def run(key: Any, value: Any, timestamp: int) -> None:
        try:
            new_key = mapper(key, value)
        except Exception as error:
            failed(error, name, key)
            return
        forward(new_key, value, timestamp)

    return run


def flat_map(spec: FlatMap, wiring: Wiring) -> StreamEdge:
    """See :class:`FlatMap`. A generator is run to its end before the first of its pairs goes on."""
    forward, failed, name, mapper = wiring.forward, wiring.failed, wiring.name, spec.mapper

    def run(key: Any, value: Any, timestamp: int) -> None:
        try:
            pairs = list(mapper(key, value))
            for pair in pairs:
                if type(pair) is not tuple or len(pair) != 2:
                    _require_pair("flat_map", "return an iterable of pairs (key, value)", pair)
        except Exception as error:
            failed(_explained(error, "flat_map", "an iterable of pairs (key, value)"), name, key)
            return
        for new_key, new_value in pairs:
            forward(new_key, new_value, timestamp)

    return run


def flat_map_values(spec: FlatMapValues, wiring: Wiring) -> StreamEdge:
    """See :class:`FlatMapValues`."""
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
            failed(_explained(error, "flat_map_values", "an iterable of values"), name, key)
            return
        for each in values:
            forward(key, each, timestamp)

    return run


def peek(spec: Peek | ForEach, wiring: Wiring) -> StreamEdge:
    """See :class:`Peek` and :class:`ForEach`, which has no children."""
    forward, failed, name, action = wiring.forward, wiring.failed, wiring.name, spec.action

    def run(key: Any, value: Any, timestamp: int) -> None:
        try:
            action(key, value)
        except Exception as error:
            failed(error, name, key)
            return
        forward(key, value, timestamp)

    return run


def pass_through(spec: PassThrough, wiring: Wiring) -> StreamEdge:
    """Nothing stands between the parents and the children."""
    return wiring.forward


def branch(spec: Branch, wiring: Wiring) -> StreamEdge:
    """See :class:`Branch`."""
    failed, name = wiring.failed, wiring.name
    missing = [child for child in spec.children if child not in wiring.children]
    if missing:
        raise TopologyError(f"branch {name} has no child named {missing[0]}")
    edges = [wiring.children[child] for child in spec.children]
    cases = list(zip(spec.predicates, edges, strict=False))
    default = edges[len(spec.predicates)] if len(edges) > len(spec.predicates) else None

    def run(key: Any, value: Any, timestamp: int) -> None:
        for predicate, edge in cases:
            try:
                holds = predicate(key, value)
            except Exception as error:
                failed(error, name, key)
                return
            if holds:
                edge(key, value, timestamp)
                return
        if default is not None:
            default(key, value, timestamp)

    return run
