"""A store that may only be read: the form in which processors get a store that its topic restores."""

from __future__ import annotations

from typing import Any, NoReturn

from penstock.common.errors import TopologyError

GLOBAL_STORE = "every host has a copy of its own, which the records of the store's topic alone may change"
SOURCE_STORE = "its topic is its changelog, and a change that is not in the topic would be lost at the next restore"
_WRITES = frozenset({"put", "put_if_absent", "put_all", "delete", "remove"})


class ReadOnlyView:
    """``view``, the typed store of any kind, without the methods by which penstock's kinds are written.

    Whatever else the view of a user's own kind of store can do, this one can. ``why``: the reason not to write it.
    """

    def __init__(self, name: str, view: Any, why: str) -> None:
        self.name = name
        self.view = view
        self.why = why

    def __getattr__(self, name: str) -> Any:
        found = self._refuse if name in _WRITES else getattr(self.view, name)
        self.__dict__[name] = found  # it is found without a detour from now on
        return found

    def _refuse(self, *given: Any, **named: Any) -> NoReturn:
        kind = "global store" if self.why == GLOBAL_STORE else "store"
        raise TopologyError(f"{kind} {self.name!r} is read-only here: {self.why}. Write to that topic instead")
