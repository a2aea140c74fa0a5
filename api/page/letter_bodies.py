"""The bodies of dead letters, and of their replay."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from penstock.api.page.record_bodies import HeaderBody, LookedBody, ShownBody
from penstock.api.schemas import BodyModel


class LetterOriginBody(BodyModel):
    """The record that failed. Parts that the letter does not name are null."""

    topic: str | None
    partition: int | None
    offset: int | None


class LetterErrorBody(BodyModel):
    """The error, as the letter's headers describe it; long texts are cut."""

    exception: str
    message: str | None
    stacktrace: str | None


class LetterReplayBody(BodyModel):
    """A replay that has written the letter's record."""

    topic: str | None
    at_ms: int = Field(description="It was written then or before.")


class LetterBody(BodyModel):
    """A dead letter."""

    partition: int
    offset: int
    timestamp: int = Field(description="That of the record, in ms since 1970.")
    error: LetterErrorBody | None = Field(description="Null if another program has written it.")
    origin: LetterOriginBody
    key: ShownBody | None = Field(description="By the serde of the topic that the record came from.")
    value: ShownBody | None
    raw_key: ShownBody | None = Field(description="As text or bytes.")
    raw_value: ShownBody | None
    headers: list[HeaderBody] = Field(description="The record's own, the first 50.")
    header_count: int
    replays: list[LetterReplayBody]
    replay_count: int = Field(description="The number of replays of the record after which it failed again.")


class LettersBody(BodyModel):
    """The newest letters of the application's dead letter topic."""

    topic: str
    letters: list[LetterBody]
    looked: list[LookedBody]
    stopped: str | None = Field(
        description="The limit that ended the read early: newer letters of other partitions may be missing. Null if "
        "there was none."
    )


Place = Annotated[str, Field(pattern=r"^[0-9]{1,9}@[0-9]{1,18}$", examples=["0@12"])]
Name = Annotated[str, Field(min_length=1, max_length=500)]


class ReplayRequestBody(BodyModel):
    """The letters to be replayed. A letter must match all that is given; at least one part must be given."""

    places: list[Place] = Field([], max_length=10_000, description="Partition and offset, as 0@12.")
    exceptions: list[Name] = Field([], max_length=100, description="Classes, with or without module.")
    topics: list[Name] = Field([], max_length=100, description="Topics that the records came from.")
    dry_run: bool = Field(False, description="Show the plan, and write nothing.")


class ReplayBody(BodyModel):
    """The plan of a replay, and the number of records that it has written."""

    topic: str
    read: int
    selected: int
    to: dict[str, int] = Field(description="The number of records for each topic.")
    left: dict[str, int] = Field(description="The number of letters that are left out, for each reason.")
    lines: list[str] = Field(description="The plan for people.")
    written: int
