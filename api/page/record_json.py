"""Writes records of topics as JSON, of bounded size, whatever the serdes of the application have made of them."""

from __future__ import annotations

from typing import Any

import orjson

from penstock.api.encoding import short_repr, to_json
from penstock.cluster.record_side import Form, KeyCounts, KeyRecords, Looked, Peek, Shown, ShownRecord
from penstock.common.errors import SerializationError
from penstock.common.windows import Window

_MOST_JSON = 256 << 10
"""Bytes of the largest JSON of one key or value. Only a serde that decompresses can make more of 64 KiB."""
_MOST_TEXT = 4 << 10


def peek_json(peek: Peek) -> bytes:
    """Returns a ``PeekBody``."""
    return orjson.dumps(
        {
            "topic": peek.topic,
            "use": peek.use,
            "committed_only": peek.committed_only,
            "records": [record_members(each) for each in peek.records],
            "looked": [looked_members(each) for each in peek.looked],
            "stopped": peek.stopped,
        }
    )


def key_counts_json(found: KeyCounts) -> bytes:
    """Returns a ``KeyCountsBody``."""
    return orjson.dumps(
        {
            "topic": found.topic,
            "use": found.use,
            "committed_only": found.committed_only,
            "records": found.records,
            "different": found.different,
            "keys": [
                {"key": shown_members(each.key), "partition": each.partition, "records": each.records}
                for each in found.keys
            ],
            "looked": [looked_members(each) for each in found.looked],
            "stopped": found.stopped,
        }
    )


def key_records_json(store: str, found: KeyRecords) -> bytes:
    """Returns a ``KeyRecordsBody``."""
    return orjson.dumps(
        {
            "store": store,
            "topic": found.topic,
            "use": found.use,
            "committed_only": found.committed_only,
            "compacted": found.compacted,
            "records": [{**record_members(each), "window": _window(each.window)} for each in found.records],
            "looked": [looked_members(each) for each in found.looked],
            "cursor": found.cursor,
            "stopped": found.stopped,
        }
    )


def _window(window: Window | None) -> dict[str, int] | None:
    return None if window is None else {"start": window.start, "end": window.end}


def record_members(record: ShownRecord) -> dict[str, Any]:
    """Returns the members of a ``RecordBody``."""
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": shown_members(record.key),
        "value": shown_members(record.value),
        "headers": [{"name": _text(name), "value": shown_members(value)} for name, value in record.headers],
        "header_count": record.header_count,
    }


def looked_members(looked: Looked) -> dict[str, int]:
    """Returns the members of a ``LookedBody``."""
    return {"partition": looked.partition, "begin": looked.begin, "reached": looked.reached, "end": looked.end}


def shown_members(shown: Shown | None) -> dict[str, Any] | None:
    """Returns the members of a ``ShownBody``. A value that has no JSON form, or too long a one, is text."""
    if shown is None:
        return None
    form, value, clipped, problem = shown.form, shown.value, shown.clipped, shown.problem
    try:
        data = to_json(value)
        if len(data) > _MOST_JSON:
            form, clipped = Form.TEXT, True
            problem = f"its JSON form has {len(data):,} bytes"
            data = to_json(_text(data[:_MOST_TEXT].decode(errors="ignore")))
    except SerializationError as error:
        form, problem = Form.TEXT, _text(str(error))
        data = to_json(short_repr(value))
    return {
        "form": form.value,
        "value": orjson.Fragment(data),
        "size": shown.size,
        "clipped": clipped,
        "problem": None if problem is None else _text(problem),
    }


def _text(text: str) -> str:
    """Returns text that JSON can have: lone surrogates are escaped."""
    return text.encode(errors="backslashreplace").decode()
