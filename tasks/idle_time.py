"""Event time that goes on while no records come: ``window.idle.advance.ms``.

Kafka Streams' stream time moves with records alone. Here the time that an operator has observed goes on by the wall
clock once nothing has reached it for that long, and everything before it is done: docs/decisions/0015 has the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.common.config import StreamsConfig
from penstock.tasks.context import Remembered
from penstock.topology.physical.topology import Node

_STEP_MS = 100
"""Live, the time of an idle operator moves this far at least: its windows need not be looked at each few ms."""
_UNWATCHED_MS = 1000
"""Live, no more than this is counted between two looks: a process that was frozen, or busy for so long, does not know
yet what has come to the broker meanwhile."""


@dataclass(eq=False)
class Advancing:
    """An operator, or several that have observed one time together.

    ``now`` tells that time (−1: none yet), ``advance`` moves it and lets go what is due by then. ``holds``: whether
    something waits in it that it will hand on later. ``resume`` is told the time that is remembered over a restart.
    """

    observed: Remembered
    advance: Callable[[int], None]
    now: Callable[[], int]
    holds: Callable[[], bool]
    resume: Callable[[int], None]
    nodes: list[str] = field(default_factory=list)
    of_all: bool = False
    topics: frozenset[str] = frozenset()
    before: tuple[Advancing, ...] = ()
    held_ms: int = -1
    """When something was last seen to wait in it."""
    advanced_ms: int = -(1 << 62)
    """Up to when, by the wall clock, its time has gone on."""


class IdleTime:
    """The operators of one task whose time goes on, and when each topic of the task last gave a record."""

    def __init__(self, idle_ms: int, *, clock_stands: bool) -> None:
        self._idle_ms = idle_ms
        self._clock_stands = clock_stands
        self._step_ms = 1 if clock_stands else _STEP_MS
        self._looked_ms = self._watched_ms = 0
        self._operators: list[Advancing] = []
        self._children: Mapping[str, Sequence[Node]] = {}
        self._last_ms: dict[str, int] = {}
        self._offsets: dict[str, int] = {}

    @classmethod
    def of(cls, config: StreamsConfig, *, clock_stands: bool) -> IdleTime | None:
        """That of ``window.idle.advance.ms``, where it is set."""
        idle_ms = config.window_idle_advance_ms
        return None if idle_ms is None else cls(idle_ms, clock_stands=clock_stands)

    def add(
        self,
        node: str,
        observed: Remembered,
        advance: Callable[[int], None],
        now: Callable[[], int] | None = None,
        holds: Callable[[], bool] | None = None,
        resume: Callable[[int], None] | None = None,
    ) -> None:
        """The time of ``node`` goes on; see :class:`Advancing`. Of several that share ``observed`` the first is
        asked."""
        operator = next((each for each in self._operators if each.observed is observed), None)
        if operator is None:
            operator = Advancing(
                observed, advance, now or (lambda: observed.ms), holds or (lambda: False), resume or (lambda ms: None)
            )
            self._operators.append(operator)
        operator.nodes.append(node)

    def add_of_all(self, observed: Remembered, advance: Callable[[int], None]) -> None:
        """The same for a time that is the whole task's: it goes on when all of its topics are idle."""
        self._operators.append(
            Advancing(observed, advance, lambda: observed.ms, lambda: False, lambda ms: None, of_all=True)
        )

    def connect(
        self, nodes: Sequence[Node], children: Mapping[str, Sequence[Node]], sources: Mapping[str, str]
    ) -> bool:
        """All were added: find out which topics (``sources``: the node that each enters by) and which other operators
        reach them; whether there are any."""
        order = {node.name: number for number, node in enumerate(nodes)}
        self._operators.sort(key=lambda each: min((order[name] for name in each.nodes), default=-1))
        reached = {topic: _reached([node], children) for topic, node in sources.items()}
        behind = [(each, _reached(each.nodes, children)) for each in self._operators]
        for operator in self._operators:
            mine = set(operator.nodes)
            operator.topics = frozenset(topic for topic, names in reached.items() if operator.of_all or mine & names)
            operator.before = tuple(other for other, names in behind if other is not operator and mine & names)
        self._children = children
        self._last_ms = dict.fromkeys(sources, -1)
        return bool(self._operators)

    def add_topic(self, topic: str, node: str) -> None:
        """Another topic enters by ``node``, now."""
        reached = _reached([node], self._children)
        for operator in self._operators:
            if operator.of_all or not reached.isdisjoint(operator.nodes):
                operator.topics |= {topic}
        self._last_ms[topic] = self._watched_ms

    def begin(self, offsets: Iterable[tuple[str, int]], wall_ms: int) -> None:
        """The task begins, behind these records: what happened before is not known, so it was idle for no time."""
        self._offsets = dict(offsets)
        self._looked_ms = self._watched_ms = wall_ms
        self._last_ms = dict.fromkeys(self._last_ms, wall_ms)
        for operator in self._operators:
            if operator.observed.ms >= 0:
                operator.resume(operator.observed.ms)

    def note(self, offsets: Iterable[tuple[str, int]], wall_ms: int) -> None:
        """The last offset of each topic that was processed by now."""
        now_ms = self._watched(wall_ms)
        for topic, offset in offsets:
            if self._offsets.get(topic) != offset:
                self._offsets[topic] = offset
                self._last_ms[topic] = now_ms

    def advance(self, wall_ms: int, busy: Iterable[str], is_flushed: Callable[[], bool]) -> bool:
        """Move the time of each operator that is idle; whether there was any.

        ``busy``: topics of which records wait, or may wait at the broker. ``is_flushed``: whether what was processed
        has reached all operators; asked only if one is idle, and if it has not those are not moved to which it matters.
        """
        now_ms = self._watched(wall_ms)
        for topic in busy:
            self._last_ms[topic] = now_ms
        moved, flushed = False, False
        for operator in self._operators:
            since = self._since(operator, now_ms)
            if now_ms - since < self._idle_ms or now_ms - operator.advanced_ms < self._step_ms:
                continue
            if (time := operator.now()) >= 0:
                # Of rows that expire nothing comes too late that a cache holds back.
                if not operator.of_all and not flushed:
                    flushed = is_flushed()
                    if not flushed:
                        return moved
                moved = True
                operator.advance(time + now_ms - max(since, operator.advanced_ms))
                operator.advanced_ms = now_ms
        return moved

    def _watched(self, wall_ms: int) -> int:
        """``wall_ms``, less the time in which nobody has looked."""
        passed = wall_ms - self._looked_ms
        self._looked_ms = wall_ms
        self._watched_ms += passed if self._clock_stands else min(max(passed, 0), _UNWATCHED_MS)
        return self._watched_ms

    def _since(self, operator: Advancing, now_ms: int) -> int:
        """Since when nothing has reached it, and nothing waited that may still do so."""
        for other in operator.before:
            if other.holds():
                other.held_ms = now_ms
        topics = [self._last_ms[topic] for topic in operator.topics]
        return max([*topics, *(other.held_ms for other in operator.before)])


def _reached(names: Iterable[str], children: Mapping[str, Sequence[Node]]) -> set[str]:
    reached: set[str] = set()
    waiting = [child.name for name in names for child in children[name]]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [child.name for child in children[name]]
    return reached
