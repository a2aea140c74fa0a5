"""The versions of the program as the page shows them: pictures, operators, and what differs. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.cluster.rollout import Rollout


@dataclass(frozen=True)
class BoxView:
    """A box of the picture; its left upper corner and its size are in pixels. ``title`` explains it in full. ``topic``:
    the topic's name in Kafka; None for a box that is no topic, or that a pattern or a function names."""

    id: str
    kind: str
    name: str
    note: str
    title: str
    lane: str | None
    topic: str | None
    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True)
class LaneView:
    """A sub-topology in the picture; its heading begins ``name_x`` pixels from its left side."""

    id: str
    name: str
    is_global: bool
    x: int
    y: int
    width: int
    height: int
    name_x: int


@dataclass(frozen=True)
class LineView:
    """A link of the picture. ``path``: its way, as SVG has it."""

    id: str
    source: str
    target: str
    to_store: bool
    path: str


@dataclass(frozen=True)
class PictureView:
    """The picture that ``penstock describe --format svg`` draws, as values."""

    title: str
    width: int
    height: int
    lanes: tuple[LaneView, ...]
    boxes: tuple[BoxView, ...]
    lines: tuple[LineView, ...]


@dataclass(frozen=True)
class FunctionView:
    """A function of the user's that an operator calls, and its place, where the coordinator has read the program."""

    role: str
    name: str
    file: str | None
    line: int | None


@dataclass(frozen=True)
class OperatorView:
    """An operator (processor node, source or sink). Topics are as Kafka names them; those that a pattern or a function
    names are not in it."""

    kind: str
    subtopology: int
    functions: tuple[FunctionView, ...]
    stores: tuple[str, ...]
    topics: tuple[str, ...]


@dataclass(frozen=True)
class ProgramView:
    """A version of the program. ``fingerprint``: versions whose topologies are described by the same text have the same
    one, whatever their functions do."""

    generation: int
    fingerprint: str
    picture: PictureView
    operators: Mapping[str, OperatorView]


@dataclass(frozen=True)
class ChangeView:
    """The fate of the tasks of a sub-topology, of a store or of a topic when one version replaces another, in the words
    of ``penstock plan``. ``is_loss``: something would be lost, or would not start. ``was`` and ``now``: its tasks as a
    pattern, ``-`` for none; empty for a topic. ``use``: of a topic, else empty."""

    kind: str
    fate: str
    is_loss: bool
    name: str
    was: str = ""
    now: str = ""
    use: str = ""
    note: str = ""


@dataclass(frozen=True)
class DifferenceView:
    """The difference of two versions. ``changes``: those that cost most first. ``lines``: the lines in which the
    descriptions of their topologies differ, each with ``-`` (old) or ``+`` (new), at most 200 of ``line_count``."""

    old: int
    new: int
    changes: tuple[ChangeView, ...]
    lines: tuple[str, ...]
    line_count: int


@dataclass(frozen=True)
class RolloutView:
    """The last roll-out. ``fingerprints``: those of the versions that are kept. ``difference``: that of the version
    before and the one that was rolled out last; None if there was none, or if the coordinator was restarted since."""

    rollout: Rollout
    fingerprints: Mapping[int, str]
    difference: DifferenceView | None
