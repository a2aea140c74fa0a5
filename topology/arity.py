"""Checks user functions once, when the program is written: they must be callable, neither async nor a generator where
a plain function is needed, and take the right number of arguments."""

from __future__ import annotations

import contextlib
import functools
import inspect
from typing import Any

from penstock.common.errors import TopologyError

EXTRACTOR_PARAMETERS = ("record", "broker_timestamp", "partition_time", "metadata")


def checked_function(function: Any, what: str, *parameters: str, may_yield: bool = False) -> None:
    """Raises TopologyError unless ``function`` can be called with ``parameters``, one argument for each.

    Nor may it be async, or, unless it ``may_yield``, a generator function. A builtin whose parameters are not known
    (``max``) is taken as it is. ``what`` names it: ``filter: predicate``.
    """
    _checked_kind(function, what, may_yield)
    signatures = _signatures(function)
    if signatures and not any(_accepts(signature, len(parameters)) for signature in signatures):
        raise _wrong_arity(function, what, signatures[0], parameters)


def takes_key(
    function: Any, what: str, *parameters: str, may_yield: bool = False, key_if_any_number: bool = False
) -> bool:
    """Returns True if ``function`` is to be called with the key before ``parameters``. Checks as `checked_function`.

    It is if it cannot be called with ``parameters`` alone but can with one more. Parameters that have a default are
    left to their default. A builtin whose parameters are not known (``int``) gets no key. One that takes any number
    (``print``) gets it ``key_if_any_number``. Raises TopologyError if neither call is possible.
    """
    _checked_kind(function, what, may_yield)
    signatures = _signatures(function)
    for signature in signatures:
        if key_if_any_number and _takes_anything(signature) and _accepts(signature, len(parameters) + 1):
            return True
        if _accepts(signature, len(parameters)):
            return False
        if _accepts(signature, len(parameters) + 1):
            return True
    if signatures:
        raise _wrong_arity(function, what, signatures[0], parameters, ("key", *parameters))
    return False


def called_out(function: Any, what: str, parameter: str) -> bool:
    """Returns True if ``function``, which may be async or a method of a Ray actor, needs ``parameter`` and a context,
    because it cannot be called with ``parameter`` alone. Raises TopologyError if neither call is possible, and for a
    generator function."""
    if callable(getattr(function, "remote", None)):
        return False  # the parameters of a method that runs elsewhere are not known here
    if not callable(function):
        raise TopologyError(f"{what} must be callable, not {function!r} ({type(function).__name__})")
    for code in _called(function):
        if inspect.isasyncgenfunction(code) or inspect.isgeneratorfunction(code):
            raise TopologyError(f"{what} must return its result; {_name(function)} has a yield: return a list")
    signatures = _signatures(function)
    for signature in signatures:
        if _accepts(signature, 1):
            return False
        if _accepts(signature, 2):
            return True
    if signatures:
        raise _wrong_arity(function, what, signatures[0], (parameter,), (parameter, "context"))
    return False


def _checked_kind(function: Any, what: str, may_yield: bool) -> None:
    if not callable(function):
        raise TopologyError(f"{what} must be callable, not {function!r} ({type(function).__name__})")
    for code in _called(function):
        if inspect.iscoroutinefunction(code) or inspect.isasyncgenfunction(code):
            raise TopologyError(
                f"{what} must be a plain function; {_name(function)} is async: it would not be awaited, and its body "
                "would never run. Write it with def; for what must be awaited there are map_values_async and "
                "process_async (docs/CALLS.md)"
            )
        if not may_yield and inspect.isgeneratorfunction(code):
            raise TopologyError(
                f"{what} must be a plain function; {_name(function)} is a generator function (it has a yield): a call "
                "only makes a generator, and its body would never run. Return the result"
            )


def _called(function: Any) -> list[Any]:
    """Returns the function itself below partials, and the ``__call__`` of an object."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type):
        return []  # a call makes an instance, whatever its methods are
    return [function, type(function).__call__]


def _signatures(function: Any) -> list[inspect.Signature]:
    """Returns its signature; for a decorator's wrapper that takes anything, first that of the wrapped function."""
    found: list[inspect.Signature] = []
    for follow_wrapped in (False, True) if hasattr(function, "__wrapped__") else (True,):
        with contextlib.suppress(TypeError, ValueError):  # a builtin whose parameters are not known
            found.insert(0, inspect.signature(function, follow_wrapped=follow_wrapped))
            if not _takes_anything(found[0]):
                break
    return found


def _takes_anything(signature: inspect.Signature) -> bool:
    return any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in signature.parameters.values())


def _accepts(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def _wrong_arity(function: Any, what: str, signature: inspect.Signature, *accepted: tuple[str, ...]) -> TopologyError:
    call, _, role = what.partition(": ")
    forms = " or ".join(f"f({', '.join(parameters)})" for parameters in accepted)
    return TopologyError(
        f"{call} takes {forms}{f' as its {role}' if role else ''}; yours takes {_count(signature)}: "
        f"{_name(function)}{signature}"
    )


def _count(signature: inspect.Signature) -> str:
    """Returns the number of arguments that it takes, in words."""
    kinds = inspect.Parameter
    every = signature.parameters.values()
    positional = [each for each in every if each.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    needed = sum(each.default is kinds.empty for each in positional)
    named = [each.name for each in every if each.kind is kinds.KEYWORD_ONLY and each.default is kinds.empty]
    if any(each.kind is kinds.VAR_POSITIONAL for each in every):
        count = f"at least {needed}"
    else:
        count = str(needed) if needed == len(positional) else f"{needed} to {len(positional)}"
    plural = "" if count.endswith(" 1") or count == "1" else "s"
    return f"{count} argument{plural}" + (f" and needs {', '.join(named)} by name" if named else "")


def _name(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)
