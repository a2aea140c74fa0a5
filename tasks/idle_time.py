"""Event time that advances while no records come: ``window.idle.advance.ms``.

In Kafka Streams only records move stream time. Here the time that an operator has observed advances by the wall clock
when nothing has reached the operator for that long, and everything upstream of it is done. docs/decisions/0015 has the
rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.common.config import StreamsConfig
from penstock.common.graphs import reachable
from penstock.tasks.context import Remembered
from penstock.topology.physical.topology import Node

_STEP_MS = 100
"""Least step (ms) of the time of an idle operator, when live: its windows need not be looked at each few ms."""
_LONGEST_STEP_MS = 1000
"""Upper limit (ms) of the time that one look adds, when live: a process that was frozen or busy for longer does not
know what has reached the broker meanwhile."""


@dataclass(eq=False)
class Advancing:
    """An operator, or several that share one observed time.

    ``now`` returns that time (−1: none yet), ``advance`` moves it and releases what is due by then. ``holds`` returns
    True if the operator keeps something that it will forward later. ``resume`` gets the time remembered over a restart.
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
    """Time (ms) at which something was last seen to wait in it."""
    advanced_ms: int = -(1 << 62)
    """Time (ms), by the wall clock, up to which its time has advanced."""


class IdleTime:
    """The operators of one task whose time advances when idle, and the time of each topic's last record."""

    def __init__(self, idle_ms: int, *, clock_is_frozen: bool) -> None:
        self._idle_ms = idle_ms
        self._clock_is_frozen = clock_is_frozen
        self._step_ms = 1 if clock_is_frozen else _STEP_MS
        self._looked_ms = self._counted_ms = 0
        self._operators: list[Advancing] = []
        self._children: Mapping[str, Sequence[Node]] = {}
        self._last_ms: dict[str, int] = {}
        self._offsets: dict[str, int] = {}

    @classmethod
    def of(cls, config: StreamsConfig, *, clock_is_frozen: bool) -> IdleTime | None:
        """Returns an instance for ``window.idle.advance.ms``; None if that is not set."""
        idle_ms = config.window_idle_advance_ms
        return None if idle_ms is None else cls(idle_ms, clock_is_frozen=clock_is_frozen)

    def add(
        self,
        node: str,
        observed: Remembered,
        advance: Callable[[int], None],
        now: Callable[[], int] | None = None,
        holds: Callable[[], bool] | None = None,
        resume: Callable[[int], None] | None = None,
    ) -> None:
        """Let the time of ``node`` advance when idle; see :class:`Advancing`. Of several that share ``observed``, the
        functions of the first are used."""
        operator = next((each for each in self._operators if each.observed is observed), None)
        if operator is None:
            operator = Advancing(
                observed, advance, now or (lambda: observed.ms), holds or (lambda: False), resume or (lambda ms: None)
            )
            self._operators.append(operator)
        operator.nodes.append(node)

    def add_of_all(self, observed: Remembered, advance: Callable[[int], None]) -> None:
        """Let a time of the whole task advance: it does so when all topics of the task are idle."""
        self._operators.append(
            Advancing(observed, advance, lambda: observed.ms, lambda: False, lambda ms: None, of_all=True)
        )

    def connect(
        self, nodes: Sequence[Node], children: Mapping[str, Sequence[Node]], sources: Mapping[str, str]
    ) -> bool:
        """Find the topics (``sources``: the node by which each enters) and the other operators that reach each
        operator, when all are added; returns True if there are any operators."""
        order = {node.name: number for number, node in enumerate(nodes)}
        self._operators.sort(key=lambda each: min((order[name] for name in each.nodes), default=-1))
        reached = {topic: _reached([node], children) for topic, node in sources.items()}
        downstream = [(each, _reached(each.nodes, children)) for each in self._operators]
        for operator in self._operators:
            mine = set(operator.nodes)
            operator.topics = frozenset(topic for topic, names in reached.items() if operator.of_all or mine & names)
            operator.before = tuple(other for other, names in downstream if other is not operator and mine & names)
        self._children = children
        self._last_ms = dict.fromkeys(sources, -1)
        return bool(self._operators)

    def add_topic(self, topic: str, node: str) -> None:
        """Add a topic that enters by ``node``, from now on."""
        reached = _reached([node], self._children)
        for operator in self._operators:
            if operator.of_all or not reached.isdisjoint(operator.nodes):
                operator.topics |= {topic}
        self._last_ms[topic] = self._counted_ms

    def begin(self, offsets: Iterable[tuple[str, int]], wall_ms: int) -> None:
        """Begin after these records. What happened before is unknown, so no topic has been idle yet."""
        self._offsets = dict(offsets)
        self._looked_ms = self._counted_ms = wall_ms
        self._last_ms = dict.fromkeys(self._last_ms, wall_ms)
        for operator in self._operators:
            if operator.observed.ms >= 0:
                operator.resume(operator.observed.ms)

    def note(self, offsets: Iterable[tuple[str, int]], wall_ms: int) -> None:
        """Take note of the last offset of each topic that was processed by now."""
        now_ms = self._count_time(wall_ms)
        for topic, offset in offsets:
            if self._offsets.get(topic) != offset:
                self._offsets[topic] = offset
                self._last_ms[topic] = now_ms

    def advance(self, wall_ms: int, busy: Iterable[str], is_flushed: Callable[[], bool]) -> bool:
        """Move the time of each operator that is idle; returns True if there was any.

        ``busy``: topics of which records wait, or may wait at the broker. ``is_flushed`` returns True if all that was
        processed has reached all operators. It is called only if one is idle; if it returns False, operators that
        depend on that do not move.
        """
        now_ms = self._count_time(wall_ms)
        for topic in busy:
            self._last_ms[topic] = now_ms
        moved, flushed = False, False
        for operator in self._operators:
            since = self._since(operator, now_ms)
            if now_ms - since < self._idle_ms or now_ms - operator.advanced_ms < self._step_ms:
                continue
            if (time := operator.now()) >= 0:
                # For the expiry of rows, updates that a cache holds back never come too late.
                if not operator.of_all and not flushed:
                    flushed = is_flushed()
                    if not flushed:
                        return moved
                moved = True
                operator.advance(time + now_ms - max(since, operator.advanced_ms))
                operator.advanced_ms = now_ms
        return moved

    def _count_time(self, wall_ms: int) -> int:
        """Returns ``wall_ms`` less the time in which it was not looked at."""
        passed = wall_ms - self._looked_ms
        self._looked_ms = wall_ms
        self._counted_ms += passed if self._clock_is_frozen else min(max(passed, 0), _LONGEST_STEP_MS)
        return self._counted_ms

    def _since(self, operator: Advancing, now_ms: int) -> int:
        """Returns the time since which no record has reached ``operator``, and none has waited that may still reach
        it."""
        for other in operator.before:
            if other.holds():
                other.held_ms = now_ms
        topics = [self._last_ms[topic] for topic in operator.topics]
        return max([*topics, *(other.held_ms for other in operator.before)])


def _reached(names: Iterable[str], children: Mapping[str, Sequence[Node]]) -> set[str]:
    below = [child for name in names for child in children[name]]
    return {node.name for node in reachable(below, lambda node: children[node.name])}
