"""The stacks of a stream actor's process over some seconds, for a flame graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

FlameOwner = Literal["program", "penstock", "package", "python"]
"""The owner of the code in a file: the user's program, penstock, an installed package, or Python itself."""

LONGEST_FLAME_S = 10.0
"""Most seconds for which the stacks of an actor are taken."""


@dataclass(frozen=True)
class Flame:
    """Folded stacks: each is a number of frames, from the thread's name inwards, and the number of samples that had
    it. ``sampler``: py-spy, or penstock's own thread. ``seconds``: for so long it looked.

    Stacks beyond the most that are kept are counted together as ``(other stacks)``. ``note``: why not by py-spy, and
    what that means for the reader; None if by py-spy. ``files``: the owner of the code in each file that frames name.
    """

    stacks: tuple[tuple[tuple[str, ...], int], ...]
    samples: int
    seconds: float
    sampler: str
    note: str | None = None
    files: Mapping[str, FlameOwner] = field(default_factory=dict)


@dataclass(frozen=True)
class FlameRefused:
    """The actor takes no stacks now, because it does so for somebody else. ``again_s``: seconds until it has ended."""

    again_s: float
