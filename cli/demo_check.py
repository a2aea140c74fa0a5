"""The demo's check: compares the application's answers over HTTP with a direct count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
from rich.console import Console
from rich.table import Table

from penstock.common.errors import StreamsError

TOP = 20
_PAGE = 10_000
_SHOWN_DIFFERENCES = 20
_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class StoreReader:
    """One store of a running application, read over HTTP."""

    client: httpx.Client
    path: str

    @classmethod
    def of(cls, address: str, application_id: str, store: str) -> StoreReader:
        """The store at ``http://host:port``."""
        client = httpx.Client(base_url=address, timeout=_TIMEOUT_S)
        return cls(client, f"/v1/applications/{application_id}/stores/{store}")

    def get(self, key: str) -> int | None:
        """The value of one key; None when it is absent."""
        answer = self.client.get(f"{self.path}/keys/{quote(key, safe='')}")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        value: int = _body(answer)["value"]
        return value

    def entries(self) -> Iterator[tuple[str, int]]:
        """Every entry, page by page."""
        query: dict[str, str | int] = {"limit": _PAGE}
        while True:
            page = _body(self.client.get(f"{self.path}/range", params=query))
            for entry in page["entries"]:
                yield entry["key"], entry["value"]
            if page["cursor"] is None:
                return
            query = {"limit": _PAGE, "cursor": page["cursor"]}


def _body(answer: httpx.Response) -> dict[str, Any]:
    if answer.is_error:
        raise StreamsError(f"GET {answer.url} was answered by {answer.status_code}: {answer.text}")
    body: dict[str, Any] = answer.json()
    return body


def verify(reader: StoreReader, expected: Mapping[str, int], console: Console) -> bool:
    """Read the most frequent keys one by one, then every entry; compare them, and print the result."""
    top = sorted(expected, key=lambda word: (-expected[word], word))[:TOP]
    console.print(_top_table({word: (reader.get(word), expected[word]) for word in top}))
    found = dict(reader.entries())
    differences = [word for word in sorted({*found, *expected}) if found.get(word) != expected.get(word)]
    if not differences:
        console.print(f"verified: {len(found):,} words, all equal", style="bold green")
        return True
    for word in differences[:_SHOWN_DIFFERENCES]:
        console.print(f"{word}: {found.get(word)} over HTTP, {expected.get(word)} counted directly", style="red")
    console.print(f"{len(differences):,} of {len(expected):,} words differ", style="bold red")
    return False


def _top_table(counts: Mapping[str, tuple[int | None, int]]) -> Table:
    table = Table(title=f"The {len(counts)} most frequent", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("word")
    table.add_column("over HTTP", justify="right")
    table.add_column("directly", justify="right")
    for word, (found, expected) in counts.items():
        shown = "absent" if found is None else f"{found:,}"
        table.add_row(word, shown, f"{expected:,}", style=None if found == expected else "red")
    return table
