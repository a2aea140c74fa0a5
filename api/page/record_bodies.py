"""The bodies of records of topics."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from penstock.api.schemas import BodyModel


class ShownBody(BodyModel):
    """A key, a value, or the value of a header."""

    form: Literal["decoded", "text", "bytes"] = Field(
        description="decoded: by the serde of the topic; text: the bytes as UTF-8; bytes: base64."
    )
    value: Any = Field(description="Any JSON if it is decoded, otherwise text.")
    size: int = Field(description="Bytes in the topic.")
    clipped: bool = Field(description="True if ``value`` is only the beginning.")
    problem: str | None = Field(description="The reason why it is not decoded. Null if it is, and in headers.")


class HeaderBody(BodyModel):
    """A header."""

    name: str
    value: ShownBody | None


class RecordBody(BodyModel):
    """A record of a topic."""

    partition: int
    offset: int
    timestamp: int = Field(description="In ms since 1970.")
    key: ShownBody | None
    value: ShownBody | None = Field(description="Null for a null value, which deletes the key in a table.")
    headers: list[HeaderBody] = Field(description="The first 50.")
    header_count: int = Field(description="The number of all headers.")


class LookedBody(BodyModel):
    """The offsets of a partition that were looked at: from ``reached`` up to, but not including, ``end``."""

    partition: int
    begin: int = Field(description="The first offset that exists.")
    reached: int
    end: int = Field(description="The offset after the last one that can be read.")


class PeekBody(BodyModel):
    """The newest records of a topic."""

    topic: str
    use: str = Field(description="Its use in the application.")
    committed_only: bool = Field(description="True if records of open and aborted transactions are left out.")
    records: list[RecordBody] = Field(
        description="The newest first, by timestamp; those of one partition are in the order of their offsets."
    )
    looked: list[LookedBody]
    stopped: str | None = Field(
        description="The limit that ended the read early: newer records of other partitions may be missing. Null if "
        "there was none."
    )


class KeyCountBody(BodyModel):
    """A key in a partition."""

    key: ShownBody | None
    partition: int
    records: int = Field(description="Number of its records among the newest ones.")


class KeyCountsBody(BodyModel):
    """The keys of the newest records of a topic, or of one partition."""

    topic: str
    use: str = Field(description="Its use in the application.")
    committed_only: bool = Field(description="True if records of open and aborted transactions are left out.")
    records: int = Field(description="Number of records whose keys were counted, at most 1000: the newest ones.")
    different: int = Field(description="Number of keys among them. One that is in two partitions counts twice.")
    keys: list[KeyCountBody] = Field(description="The ten most frequent ones, the most frequent one first.")
    looked: list[LookedBody]
    stopped: str | None = Field(description="The limit that ended the read early. Null if there was none.")


class TopicBody(BodyModel):
    """A topic of the application."""

    name: str
    use: str


class TopicsBody(BodyModel):
    """The topics that the application reads and writes, without those that its functions choose."""

    topics: list[TopicBody]


class WindowOfKeyBody(BodyModel):
    """The window of a windowed key, in ms since 1970."""

    start: int
    end: int


class VersionOfKeyBody(RecordBody):
    """A record of a key. Of a changelog: what the key became then; a null value deletes it."""

    window: WindowOfKeyBody | None = Field(description="The window, in the changelog of a window or session store.")


class KeyRecordsBody(BodyModel):
    """The records of a key in a topic, of each partition the newest first."""

    store: str
    topic: str
    use: str = Field(description="The use of the topic in the application.")
    committed_only: bool = Field(description="True if records of open and aborted transactions are left out.")
    compacted: bool | None = Field(
        description="True: the topic is compacted, so older records of the key may be gone. Null: not known."
    )
    records: list[VersionOfKeyBody]
    looked: list[LookedBody] = Field(
        description="If ``begin`` is not 0, retention has deleted older records, or ``from_ms`` left them out."
    )
    cursor: str | None = Field(description="Continues where this answer ends. Null if nothing is left.")
    stopped: str | None = Field(
        description="The limit that ended the read before ``limit`` records were found. Null if there was none."
    )
