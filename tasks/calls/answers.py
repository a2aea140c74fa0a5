"""Results that equal calls share: those of calls that run, and those of calls that have ended (a cache)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from penstock.tasks.calls.element import Element
from penstock.topology.options.calls import Cache

_NONE = object()


class SharedAnswers:
    """``collapses``: True if elements with equal calls share that of the first. ``cache``: the limits of the results
    that are kept."""

    def __init__(self, cache: Cache | None, collapses: bool) -> None:
        self._cache = cache
        self._collapses = collapses
        self._kept: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()
        self._leaders: dict[Hashable, Element] = {}
        self.hits = self.misses = self.collapsed = 0

    def kept(self, element: Element, now_ms: float) -> tuple[bool, Any]:
        """Returns True and the result of an equal call, if one is kept; otherwise False."""
        if self._cache is None:
            return False, None
        until_ms, result = self._kept.get(element.same, (0.0, _NONE))
        if result is _NONE or until_ms <= now_ms:
            self.misses += 1
            return False, None
        self.hits += 1
        self._kept.move_to_end(element.same)
        return True, result

    def leader(self, element: Element) -> Element | None:
        """Returns the element whose call, which is equal and has not ended, this one may share. If there is none,
        others may share that of ``element``."""
        if not self._collapses:
            return None
        leader = self._leaders.setdefault(element.same, element)
        if leader is element:
            return None
        self.collapsed += 1
        return leader

    def ended(self, element: Element, now_ms: float, succeeded: bool) -> None:
        """Note that the call of ``element`` has ended; keep its result if it ``succeeded``."""
        if self._leaders.get(element.same) is element:
            del self._leaders[element.same]
        if succeeded and self._cache is not None:
            self._kept[element.same] = now_ms + self._cache.ttl_ms, element.result
            self._kept.move_to_end(element.same)
            if len(self._kept) > self._cache.max_entries:
                self._kept.popitem(last=False)
