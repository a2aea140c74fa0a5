"""The properties of an operator, by which the engine runs it well without knowing it.

An operator of the DSL is a frozen dataclass (``operators``) that derives from :class:`Operator`; ``tasks/operators``
turns it into a closure when a task starts. Its user functions, which its fields declare by :func:`called_with`, decide
whether it sees keys and values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Protocol, Self

from penstock.common.serdes import Serde, SerdePart


class Parameter(StrEnum):
    """The arguments of user functions, in words for people."""

    KEY = "the key"
    VALUE = "the value"
    AGGREGATE = "the aggregate"
    TABLE_VALUE = "the table's value"
    LEFT_VALUE = "the left stream's value"
    RIGHT_VALUE = "the right stream's value"


KEY, VALUE, AGGREGATE, TABLE_VALUE, LEFT_VALUE, RIGHT_VALUE = Parameter

_CALLED_WITH = "called with"
_MANY = "many"
_AWAITED = "awaited"


@dataclass(frozen=True)
class UserFunction:
    """A function of the program as the engine calls it.

    ``owner``: the call it was given to and the node, ``filter KSTREAM-FILTER-0000000001``. ``parameters``: its
    arguments, in words. ``many``: its result is iterated to the end. ``awaited``: it calls out, so its result may be
    awaitable, and its arguments may be more than ``parameters``, or made of these. ``role``: its part in the call, in
    words: ``initializer``.
    """

    function: Callable[..., Any]
    owner: str
    parameters: tuple[str, ...]
    many: bool = False
    awaited: bool = False
    role: str = "function"


def called_with(*parameters: Parameter, many: bool = False, awaited: bool = False) -> dict[str, Any]:
    """The metadata of a dataclass field that holds a user function.

    ``KEY`` among the parameters is left out when the spec has a field ``with_key`` that is false.
    """
    return {_CALLED_WITH: parameters, _MANY: many, _AWAITED: awaited}


def declares_function(metadata: Any) -> bool:
    """Returns True if a field with this metadata holds a user function."""
    return _CALLED_WITH in metadata


@dataclass(frozen=True)
class WithFunctions:
    """A value whose fields hold user functions, or such values, or tuples of them."""

    @property
    def call(self) -> str:
        """The method of the DSL that took the functions, for messages."""
        return type(self).__name__

    def owner(self, node: str) -> str:
        """Returns words for the owner of the functions, when ``node`` calls them."""
        return f"{self.call} {node}"

    @property
    def gives_keys(self) -> bool:
        """True if a user function in it is given the key, or an object of the user's that it makes."""
        return any(KEY in each.parameters for each in self.functions) or any(
            held.gives_keys for each in fields(self) if isinstance(held := getattr(self, each.name), WithFunctions)
        )

    @property
    def functions(self) -> tuple[UserFunction, ...]:
        """Every user function in it."""
        found: list[UserFunction] = []

        def note(function: UserFunction) -> Callable[..., Any]:
            found.append(function)
            return function.function

        self.with_functions("", note)
        return tuple(found)

    def with_functions(self, node: str, change: Callable[[UserFunction], Callable[..., Any]]) -> Self:
        """Returns a copy with ``change(function)`` in place of each user function; ``node`` calls them."""

        def changed(held: Any) -> Any:
            if isinstance(held, WithFunctions):
                return held.with_functions(node, change)
            return tuple(map(changed, held)) if isinstance(held, tuple) else held

        values: dict[str, Any] = {}
        for each in fields(self):
            held = getattr(self, each.name)
            if declares_function(each.metadata):
                parameters = self._parameters(each.metadata[_CALLED_WITH])
                many, awaited = each.metadata[_MANY], each.metadata[_AWAITED]
                role = each.name.replace("_", " ")
                held = change(UserFunction(held, self.owner(node), parameters, many, awaited, role))
            values[each.name] = changed(held)
        return replace(self, **values)

    def _parameters(self, declared: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
        with_key = getattr(self, "with_key", True)
        return tuple(each for each in declared if with_key or each is not KEY)


class FilledSerde(Protocol):
    """Returns a serde as an application has it: see :meth:`Operator.with_serdes`."""

    def __call__(self, serde: Serde[Any] | None, part: SerdePart, topic: str, owner: str, option: str) -> Serde[Any]:
        """Returns ``serde``, or the configuration's default, bound to the internal topic ``topic``.

        If there is neither, the error says that ``owner`` keys or values have none, and to pass ``option``.
        """


@dataclass(frozen=True)
class Operator(WithFunctions, ABC):
    """The operator of a processor node.

    Stream edges carry (key, value, timestamp); table edges carry (key, new value, old value, timestamp). The old
    value is only filled if the node has ``send_old_values`` (Kafka Streams' ``Change``).
    """

    @property
    @abstractmethod
    def keeps_key(self) -> bool:
        """True if what it forwards always has the key that it received."""

    @property
    @abstractmethod
    def keeps_value(self) -> bool:
        """True if what it forwards is the value that it received, or none."""

    @property
    def sees_key(self) -> bool:
        """True if the key must be decoded: by default, if a user function is given it, or an object of the user's by
        which it looks into a table."""
        return self.gives_keys

    @property
    def sees_value(self) -> bool:
        """True if the value must be decoded: by default, if a user function is given it."""
        return any(VALUE in each.parameters for each in self.functions)

    @property
    def runs_user_objects(self) -> bool:
        """True if it passes records to a user's object, which may keep them: they must come in their own order."""
        return False

    @property
    def wrapped(self) -> bool:
        """True if a :class:`~penstock.topology.processor_api.processor_wrapper.ProcessorWrapper` has seen it."""
        return False

    @property
    def keeps_source_store(self) -> bool:
        """True if it is a user's processor that keeps a store that its source topic restores: all other processors may
        only read that store."""
        return False

    @property
    def makes_windowed_keys(self) -> bool:
        """True if it forwards the windowed keys of the first of :attr:`stores`: as bytes if no node below it looks at
        them (``tasks/undecoded.py``), else decoded."""
        return False

    @property
    def keeps_source(self) -> bool:
        """True if it asks for the source of a record, and keeps it: then a flush must know it of each update."""
        return False

    @property
    def window_grace_ms(self) -> int | None:
        """Stream time (ms) for which it may still change a window after its end. Of session windows that is grace and
        inactivity gap. None if it makes no windows."""
        return None

    @property
    def stores(self) -> tuple[str, ...]:
        """The stores it uses, its own first."""
        return ()

    @property
    def stores_looked_into(self) -> frozenset[str]:
        """Those of its stores that it only reads: by default those that its value getters look into."""
        held = [getattr(self, each.name) for each in fields(self)]
        return frozenset(store for each in held if isinstance(each, ValueGetter) for store in each.stores)

    @property
    def stores_by_key(self) -> tuple[str, ...]:
        """Those of its stores in which it looks up the row of the key that it received: such rows are read ahead.

        By default all, if it keeps the key. An operator whose rows have longer keys, with a window for example, names
        none.
        """
        return self.stores if self.keeps_key else ()

    @property
    def stores_under_key(self) -> tuple[str, ...]:
        """Those of its stores whose serde its keys must have if it receives them as bytes: by default all.

        An operator that makes the keys of a store by its own serdes leaves that store out.
        """
        return self.stores

    def with_serdes(self, fill: FilledSerde, node: str) -> Self:
        """Returns a copy with the serdes that it uses itself, beyond those of its stores, filled in for ``node``."""
        return self


@dataclass(frozen=True, kw_only=True)
class TableOperator(Operator):
    """An operator whose result is a table: it forwards updates, and keeps them in ``store`` unless that is None.

    ``send_old_values``: each update carries the old value.
    """

    store: str | None = None
    send_old_values: bool = False

    @property
    def stores(self) -> tuple[str, ...]:
        """Its own store, if it has one."""
        return () if self.store is None else (self.store,)


@dataclass(frozen=True)
class ValueGetter(WithFunctions, ABC):
    """The look-up of a table's value by another operator."""

    @property
    @abstractmethod
    def stores(self) -> tuple[str, ...]:
        """The stores that hold the values that it looks up."""

    @property
    def versioned(self) -> bool:
        """True if the table's value of a time can be looked up: ``tasks/operators/as_of.py`` must know its type."""
        return False

    def owner(self, node: str) -> str:
        """Returns words for the owner: the functions are those of a table, whichever node looks."""
        return f"{self.call} of the table that {node} joins"
