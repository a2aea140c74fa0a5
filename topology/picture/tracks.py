"""The horizontal parts of links between two layers: each net of links has a track. Nets cross as little as possible.

A net is a set of links that share an end. Its horizontal part has a branch up or down at each of its links.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

_CLEAR = 8
"""Pixels between two nets on one track, and between two vertical lines that are no common line."""
_OVERLAP = 1_000
"""The cost of a common vertical line, in crossings."""


@dataclass
class Net:
    """Links that share an end: the positions of its branches to the layer above and to the layer below, which are
    complete before its track is asked for."""

    uppers: list[int] = field(default_factory=list)
    lowers: list[int] = field(default_factory=list)
    track: int = 0

    @cached_property
    def left(self) -> int:
        """The left end of its horizontal part."""
        return min((*self.uppers, *self.lowers))

    @cached_property
    def right(self) -> int:
        """The right end of its horizontal part."""
        return max((*self.uppers, *self.lowers))

    @property
    def is_straight(self) -> bool:
        """True if it needs no horizontal part."""
        return self.left == self.right


def assign(nets: list[Net]) -> int:
    """Set the track of each net, counted from above; returns the number of tracks. Straight nets have none."""
    bent = sorted((net for net in nets if not net.is_straight), key=lambda net: (net.left, net.right))
    ordered: list[Net] = []
    for net in bent:
        # The position among the nets so far at which the costs are least: those before it are above it.
        cost = least = best = 0
        for at, other in enumerate(ordered, start=1):
            if _meet(net, other):
                cost += _cost(other, net) - _cost(net, other)
                if cost < least:
                    least, best = cost, at
        ordered.insert(best, net)
    for at, net in enumerate(ordered):
        net.track = max((other.track + 1 for other in ordered[:at] if _meet(net, other)), default=0)
    return max((net.track + 1 for net in ordered), default=0)


def hidden(nets: list[Net]) -> list[tuple[Net, int]]:
    """Returns (net, position of a branch up) for each such branch that would run into the branch of another net, whose
    track is higher."""
    bent = [net for net in nets if not net.is_straight]
    return [
        (net, upper)
        for net in bent
        for upper in net.uppers
        if any(
            abs(upper - lower) < _CLEAR and other.track <= net.track
            for other in bent
            if other is not net
            for lower in other.lowers
        )
    ]


def _meet(one: Net, other: Net) -> bool:
    return one.left - _CLEAR < other.right and other.left - _CLEAR < one.right


def _cost(above: Net, below: Net) -> int:
    """Returns the number of crossings if one net is above another one."""
    crossings = sum(above.left < upper < above.right for upper in below.uppers)
    crossings += sum(below.left < lower < below.right for lower in above.lowers)
    shared = sum(abs(upper - lower) < _CLEAR for upper in below.uppers for lower in above.lowers)
    return crossings + _OVERLAP * shared
