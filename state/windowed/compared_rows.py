"""The rows of windowed keys that an audit compares: those that have not expired, without the indexes of them."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.state.contracts import CommittedStore
from penstock.state.windowed.expiring_rows import PROGRESS, PROGRESS_KEY
from penstock.state.windowed.keys import KeySchema
from penstock.state.windowed.segments import NOTHING_OBSERVED, Segments, pack_segment

_BEHIND_ROWS = b"\xfe"
"""After the keys of all rows of windowed keys: the number of a segment does not begin with this byte."""


def compared_rows(
    committed: CommittedStore, schema: KeySchema, segments: Segments, from_key: bytes | None, to_key: bytes | None
) -> Iterator[tuple[bytes, bytes]]:
    """Yields the rows of windowed keys that have not expired as of the stream time that ``committed`` notes: see
    :meth:`~penstock.state.builders.StoreBuilder.compared_rows`."""
    stream_time = PROGRESS.unpack(committed.get(PROGRESS_KEY) or PROGRESS.pack(NOTHING_OBSERVED, 0))[0]
    first_visible = segments.first_visible(stream_time)
    oldest = segments.of(first_visible)
    # Only the oldest segment has rows that have expired. Those of a store that is read by time come after all segments.
    rows = committed.scan(max(pack_segment(oldest), from_key or b""), min(_BEHIND_ROWS, to_key or _BEHIND_ROWS))
    of_oldest, time = pack_segment(oldest), schema.time
    for row in rows:
        if not row[0].startswith(of_oldest) or time(row[0]) >= first_visible:
            yield row
