"""The program as it travels to the Ray cluster, and the error that names the function which cannot."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from ray import cloudpickle

from penstock.actors.spec import ApplicationSpec
from penstock.common.errors import ConfigError
from penstock.topology.physical.topology import Node, ProcessorNode


def pickled_program(spec: ApplicationSpec) -> bytes:
    """The pickled program. Raises ConfigError if something in it cannot be pickled, naming the operator, its function
    and the variable where those can be found."""
    if (error := _refused(spec)) is None:
        pickled: bytes = cloudpickle.dumps(spec)  # type: ignore[no-untyped-call]  # untyped in Ray
        return pickled
    place = next(_places(spec), None)
    whose, cause = place if place is not None else ("its functions, serdes or configuration", error)
    raise ConfigError(
        f"application {spec.application_id!r} cannot be sent to the cluster: {whose} cannot be pickled: "
        f"{type(cause).__name__}: {cause}. Make such objects where they run: in a Processor's init(), or the function"
    ) from error


def _refused(value: object) -> Exception | None:
    try:
        cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    except Exception as error:  # pickling runs arbitrary code of the user's objects
        return error
    return None


def _places(spec: ApplicationSpec) -> Iterator[tuple[str, Exception]]:
    """The parts of the program that cannot be pickled, from the smallest that can be named."""
    for node in (node for sub in spec.topology.every_subtopology for node in sub.nodes):
        if _refused(node) is not None:
            yield from _of_node(node)
    for key, value in spec.config.entries().items():
        if (error := _refused(value)) is not None:
            yield f"the value of configuration key {key!r}", error


def _of_node(node: Node) -> Iterator[tuple[str, Exception]]:
    if isinstance(node, ProcessorNode):
        operator = node.operator
        for each in operator.functions:
            if (error := _refused(each.function)) is not None:
                yield f"{_named(each.function)} of {operator.owner(node.name)}{_variables(each.function)}", error
    if (error := _refused(node)) is not None:
        yield f"what {node.name} was given", error


def _named(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    where = f" ({code.co_filename}, line {code.co_firstlineno})" if code is not None else ""
    return f"function {getattr(function, '__qualname__', repr(function))}{where}"


def _variables(function: Callable[..., Any]) -> str:
    try:
        seen = inspect.getclosurevars(function)
    except (TypeError, ValueError):  # not a function of Python's, or one whose variables are not set yet
        return ""
    names = [name for name, value in {**seen.globals, **seen.nonlocals}.items() if _refused(value) is not None]
    return f", which uses {', '.join(names)}," if names else ""
