"""The bodies of the picture of a topology, and of its operators."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from penstock.api.schemas import BodyModel


class BoxBody(BodyModel):
    """An operator, a store or a topic in the picture. Positions and sizes are in pixels."""

    id: str
    kind: Literal["source", "processor", "sink", "store", "global-store", "topic", "repartition"]
    name: str = Field(description="Its first line, shortened if it is long.")
    note: str
    title: str
    lane: str | None = Field(description="The id of its sub-topology. Null for a topic.")
    topic: str | None = Field(
        description="The topic's name in Kafka. Null for others, and for one that a pattern or a function names."
    )
    x: int
    y: int
    width: int
    height: int


class LaneBody(BodyModel):
    """A sub-topology in the picture."""

    id: str
    name: str
    is_global: bool
    x: int
    y: int
    width: int
    height: int
    name_x: int = Field(description="Distance of its heading from its left side.")


class LineBody(BodyModel):
    """A link between two boxes."""

    id: str
    source: str
    target: str
    to_store: bool
    path: str = Field(description="A path of SVG.")


class PictureBody(BodyModel):
    """The picture that `penstock describe --format svg` draws."""

    title: str
    width: int
    height: int
    lanes: list[LaneBody]
    boxes: list[BoxBody]
    lines: list[LineBody]


class FunctionBody(BodyModel):
    """A function of the program, where the coordinator has read it."""

    role: str
    name: str
    file: str | None
    line: int | None


class OperatorBody(BodyModel):
    """An operator: a processor node, a source or a sink."""

    kind: str
    subtopology: int
    functions: list[FunctionBody]
    stores: list[str]
    topics: list[str] = Field(description="The topics that it reads or writes, as Kafka names them.")


class TopologyBody(BodyModel):
    """A version of the program."""

    generation: int
    fingerprint: str = Field(description="The same for versions whose topologies are described by the same text.")
    picture: PictureBody
    operators: dict[str, OperatorBody]
