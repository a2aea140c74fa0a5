"""The bodies of a roll-out, and of the difference of its versions."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from penstock.api.schemas import BodyModel, RolloutBody


class ChangeBody(BodyModel):
    """The fate of tasks, of a store or of a topic, in the words of `penstock plan`."""

    kind: Literal["tasks", "store", "topic"]
    fate: Literal["kept", "moved", "changed", "restored", "new", "gone", "orphaned", "rebuilt", "refused"]
    name: str
    was: str = Field(description="The tasks that had it, as a pattern; - for none; empty for a topic.")
    now: str
    is_loss: bool = Field(description="True if something would be lost, or would not start.")
    use: str = Field(description="The use of a topic: input, output, repartition or changelog. Else empty.")
    note: str


class DifferenceBody(BodyModel):
    """The difference of two versions."""

    old: int
    new: int
    changes: list[ChangeBody] = Field(description="Those that cost most first.")
    lines: list[str] = Field(
        description="Lines in which the descriptions of their topologies differ: - for old, + for new; at most 200."
    )
    line_count: int = Field(description="The number of all these lines.")


class RolloutViewBody(RolloutBody):
    """The last roll-out, and what differs between its versions."""

    fingerprints: dict[str, str] = Field(description="Of the versions that are kept, by number: as in `topology`.")
    difference: DifferenceBody | None = Field(
        description="Null if there was no roll-out, or if the coordinator was restarted after the last one."
    )
