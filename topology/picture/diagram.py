"""The parts of a picture without positions: lanes (sub-topologies), boxes, and the links between boxes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote


def part_id(kind: str, name: str) -> str:
    """Returns the id of a part: different names have different ids, of ASCII characters that need no quoting."""
    return f"{kind}:{quote(name, safe='')}"


class BoxKind(StrEnum):
    """The kind of a box, which decides its shape."""

    SOURCE = "source"
    PROCESSOR = "processor"
    SINK = "sink"
    STORE = "store"
    GLOBAL_STORE = "global-store"
    """A reference to a store that another sub-topology keeps."""
    TOPIC = "topic"
    REPARTITION = "repartition"

    @property
    def is_topic(self) -> bool:
        """True if the box is outside of all lanes."""
        return self in (BoxKind.TOPIC, BoxKind.REPARTITION)

    @property
    def is_store(self) -> bool:
        """True if the box is attached to processors, and forwards no records."""
        return self in (BoxKind.STORE, BoxKind.GLOBAL_STORE)


@dataclass(frozen=True)
class Part:
    """A box: ``name`` is its first line, ``note`` its second, ``title`` the full text that explains it.

    ``lane`` is the id of its lane, None for topics.
    """

    id: str
    kind: BoxKind
    name: str
    note: str
    title: str
    lane: str | None = None


@dataclass(frozen=True)
class LanePart:
    """A sub-topology; ``name`` is the heading of its lane."""

    id: str
    name: str
    is_global: bool = False


@dataclass(frozen=True)
class LinkPart:
    """A link between two boxes. Records go from ``source`` to ``target``, unless ``target`` is a store."""

    source: str
    target: str

    @property
    def id(self) -> str:
        """The id of the link, which its two ends make unique."""
        return f"{self.source}>{self.target}"


@dataclass(frozen=True)
class Diagram:
    """All parts, in the order in which the topology has them. Links within a lane make no circle."""

    title: str
    lanes: tuple[LanePart, ...]
    parts: tuple[Part, ...]
    links: tuple[LinkPart, ...]
