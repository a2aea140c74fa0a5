"""Reads a live stream, as the page does."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx

LIVE = "/v1/applications/word-count/live"


async def events_of(answer: httpx.Response) -> AsyncIterator[tuple[str, Any]]:
    """Yields the name and the data of each event; for a heartbeat an empty name and None."""
    name, data = "", ""
    async for line in answer.aiter_lines():
        if line.startswith(":"):
            yield "", None
        elif line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            data = line.removeprefix("data: ")
        elif not line and name:
            yield name, json.loads(data)
            name, data = "", ""


def applied(document: Mapping[str, Any], delta: Mapping[str, Any]) -> dict[str, Any]:
    """Returns ``document`` with the changes of ``delta``."""
    sections = {**document, **{section: {**document.get(section, {}), **rows} for section, rows in delta.items()}}
    return {section: {id: row for id, row in rows.items() if row is not None} for section, rows in sections.items()}
