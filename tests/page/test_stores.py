"""The view of stores: the list, the queries of one store, and rows of any content."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
from playwright.sync_api import Locator, Page, expect

from penstock.common.errors import TaskNotReadyError
from tests.page.server import PageServer
from tests.page.views import opened
from tests.page.watch import Watch

STORE = "per-customer"


@pytest.fixture
def rows(server: PageServer) -> dict[str, Any]:
    """Puts rows into the store, each with the timestamp 1,700,000,000,000."""

    class Rows(dict[str, Any]):
        def __setitem__(self, key: str, value: Any) -> None:
            server.side.fakes[STORE].put(key, value, 1_700_000_000_000)

    return Rows()


def asked(page: Page, server: PageServer, query: str, **fields: str) -> Locator:
    """Asks the store, and returns the table of the answer."""
    opened(page, server.url, "stores", STORE)
    page.get_by_label("Query").select_option(label=query)
    for label, text in fields.items():
        page.get_by_label(label.replace("_", " "), exact=True).fill(text)
    page.get_by_role("button", name="Ask").click()
    return page.get_by_role("table", name="Rows of the answer")


def test_all_stores_are_listed_with_their_size(server: PageServer, page: Page) -> None:
    opened(page, server.url, "stores")
    row = page.get_by_role("row", name=STORE)
    expect(row).to_contain_text("20,000")
    expect(row).to_contain_text("4.00 MB")
    row.get_by_role("link", name=STORE).click()
    expect(page.get_by_role("heading", name=STORE)).to_be_visible()


def test_a_row_is_found_by_its_key(server: PageServer, page: Page, rows: dict[str, Any]) -> None:
    rows["ada"] = {"orders": 3}
    table = asked(page, server, "One key", Key="ada")
    expect(table.get_by_role("rowheader", name="ada")).to_be_visible()
    expect(page.get_by_text("1 row", exact=True)).to_be_visible()
    expect(table).to_contain_text('"orders": 3')
    expect(table).to_contain_text("2023-11-14T22:13:20")


def test_a_key_that_is_absent_is_said_so(server: PageServer, page: Page, watch: Watch) -> None:
    watch.expected = ["status of 404"]
    asked(page, server, "One key", Key="nobody")
    expect(page.locator(".problem")).to_contain_text("nobody")


def test_a_range_comes_page_by_page(server: PageServer, page: Page, rows: dict[str, Any]) -> None:
    for number in range(250):
        rows[f"key-{number:03}"] = number
    table = asked(page, server, "Range of keys", First_key="key-010")
    expect(table.get_by_role("rowheader").first).to_contain_text("key-010")
    before = table.get_by_role("rowheader").count()
    assert 0 < before < 240
    while page.get_by_role("button", name="Next page").is_visible():
        page.get_by_role("button", name="Next page").click()
        expect(table.get_by_role("rowheader").nth(before)).to_be_visible()
        before = table.get_by_role("rowheader").count()
        assert before <= 240, "a page came twice"
    expect(table.get_by_role("rowheader")).to_have_count(240)
    expect(table.get_by_role("rowheader").last).to_contain_text("key-249")


def test_a_value_is_shown_as_json_as_text_and_as_bytes(server: PageServer, page: Page, rows: dict[str, Any]) -> None:
    rows["raw"] = b"\x00\x01\xfe"
    table = asked(page, server, "One key", Key="raw")
    expect(table).to_contain_text('"AAH+"')
    page.get_by_label("Values as").select_option("bytes")
    expect(table).to_contain_text("00 01 fe")


def test_a_long_number_keeps_all_its_digits(server: PageServer, page: Page, rows: dict[str, Any]) -> None:
    rows["many"] = 9_007_199_254_740_993
    expect(asked(page, server, "One key", Key="many")).to_contain_text("9007199254740993")


@pytest.mark.parametrize(
    "value",
    [
        "<script>window.ran = 1</script>",
        "<img src=x onerror='window.ran = 1'>",
        "a\x00b\x1b[31m\u202ec",
        {"__proto__": {"polluted": 1}, "constructor": None},
        [None] * 100,
        "x" * 5_000_000,
        {"n" * 5_000: "v" * 5_000},
        None,
    ],
    ids=["script", "handler", "invisible", "prototype", "nulls", "5 MB", "long name", "null"],
)
def test_a_hostile_row_does_nothing_and_can_be_read(
    server: PageServer, page: Page, rows: dict[str, Any], value: Any
) -> None:
    rows["<b>key</b>\u202e"] = value
    rows["z"] = "the row after it"
    table = asked(page, server, "Range of keys")
    expect(table.get_by_role("row")).to_have_count(3)
    expect(table).to_contain_text("<b>key</b>\\u202e")
    expect(table).to_contain_text("the row after it")
    assert page.evaluate("[window.ran, ({}).polluted]") == [None, None]
    assert page.evaluate("document.querySelectorAll('main img, main script, main b').length") == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("document.body.textContent.length") < 100_000


def test_a_store_that_moves_is_asked_again_by_hand(server: PageServer, page: Page, watch: Watch) -> None:
    watch.expected = ["status of 503"]
    opened(page, server.url, "stores", STORE)
    find = server.side.find_row

    async def not_ready(*_: object) -> None:
        raise TaskNotReadyError("task 1_0 restores")

    server.side.find_row = not_ready  # type: ignore[method-assign, assignment]
    try:
        page.get_by_label("Query").select_option(label="One key")
        page.get_by_label("Key", exact=True).fill("ada")
        page.get_by_role("button", name="Ask").click()
        expect(page.locator(".problem")).to_contain_text("task 1_0 restores")
    finally:
        server.side.find_row = find  # type: ignore[method-assign]
    server.side.fakes[STORE].put("ada", 3)
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("table", name="Rows of the answer")).to_contain_text("ada")
    expect(page.locator(".problem")).to_have_count(0)


def test_a_view_that_the_server_could_not_fill_is_filled_when_it_can(
    server: PageServer, page: Page, watch: Watch
) -> None:
    watch.expected = ["status of 503"]
    stores = server.side.stores

    async def not_yet() -> NoReturn:
        raise TaskNotReadyError("the coordinator is silent")

    server.side.stores = not_yet  # type: ignore[method-assign]
    try:
        page.goto(f"{server.url}/#/stores")
        expect(page.locator(".problem")).to_contain_text("the coordinator is silent")
    finally:
        server.side.stores = stores  # type: ignore[method-assign]
    expect(page.get_by_role("table", name="All stores")).to_contain_text(STORE)
    expect(page.locator(".problem")).to_have_count(0)
