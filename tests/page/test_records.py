"""The view of records: the newest ones of a topic, decoded, and whatever others have written into them."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from penstock.cluster.record_side import Form, KeyCount, KeyCounts, Looked, Peek, Shown, ShownRecord
from tests.page.server import PageServer
from tests.page.views import opened, shown
from tests.page.watch import Watch


def peeked(server: PageServer, page: Page, *records: ShownRecord) -> Locator:
    """Opens the newest records of topic ``orders``, which are these."""
    looked = (Looked(0, 0, 5, 8),)
    server.side.records.peeks = {"orders": Peek("orders", "read by orders-source", records, looked, False, None)}
    opened(page, server.url, "records")
    page.get_by_role("link", name="orders", exact=True).click()
    return page.get_by_role("table", name="Records of the topic")


def decoded(value: object) -> Shown:
    return Shown(Form.DECODED, value, 10)


def test_the_newest_records_of_a_topic_are_shown(server: PageServer, page: Page) -> None:
    record = ShownRecord(0, 1_234, 1_700_000_000_000, decoded("ada"), decoded({"cents": 250}), (), 0)
    table = peeked(server, page, record)
    expect(table.get_by_role("rowheader")).to_have_text("1,234")
    expect(table).to_contain_text('"ada"')
    expect(table).to_contain_text('"cents": 250')
    expect(table).to_contain_text("2023-11-14T22:13:20")


def test_a_value_out_of_view_does_not_make_a_row_of_a_phone_high(server: PageServer, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    value = decoded("a value of some words in one line")
    row = (
        peeked(server, page, ShownRecord(0, 7, 1_000, decoded("customer-1234"), value, (), 0)).get_by_role("row").nth(1)
    )
    box = row.bounding_box()
    assert box is not None
    assert box["height"] < 40


def test_a_record_that_cannot_be_decoded_shows_its_bytes_and_the_reason(server: PageServer, page: Page) -> None:
    broken = Shown(Form.BYTES, "AAH+", 5_000_000, clipped=True, problem="no JSON: unexpected byte 0x00")
    table = peeked(server, page, ShownRecord(1, 7, 1_000, None, broken, (), 0))
    expect(table).to_contain_text("null")
    expect(table).to_contain_text("bytes, the beginning of 5.00 MB")
    expect(table).to_contain_text("unexpected byte 0x00")


def test_keys_are_counted_when_asked_and_a_click_counts_those_of_one_partition(server: PageServer, page: Page) -> None:
    peeked(server, page)
    keys = (KeyCount(decoded("acme"), 3, 187), KeyCount(None, 1, 13))
    looked = (Looked(3, 0, 5, 8),)
    server.side.records.counts = {
        ("orders", None): KeyCounts("orders", "read by orders-source", 200, 2, keys, looked, False),
        ("orders", 3): KeyCounts("orders", "read by orders-source", 187, 1, keys[:1], looked, False, "4 seconds"),
    }
    view = page.locator("section[data-view]")
    expect(view.get_by_role("table", name="Most frequent keys")).to_have_count(0)
    page.get_by_role("button", name="Count keys").click()
    expect(view).to_contain_text('Of the newest 200 records, 187 records (94 %) have the key "acme". There are 2 keys')
    rows = view.get_by_role("table", name="Most frequent keys").get_by_role("row")
    expect(rows.nth(2)).to_contain_text("null")
    rows.nth(1).get_by_role("link", name="3").click()
    expect(view).to_contain_text('Of the newest 187 records of partition 3, 187 records (100 %) have the key "acme"')
    expect(view).to_contain_text("Newer ones may be missing: 4 seconds")
    page.get_by_role("link", name="All partitions").click()
    expect(page.get_by_role("button", name="Count keys")).to_be_visible()


def test_a_partition_that_the_topic_lacks_is_a_problem_in_a_sentence(
    server: PageServer, page: Page, watch: Watch
) -> None:
    watch.expected = ["404"]
    peeked(server, page)
    page.goto(f"{server.url}/#/records/orders%2F9")
    expect(shown(page, "records")).to_contain_text("topic 'orders' has no partition 9")


@pytest.mark.parametrize(
    "text",
    ["<script>window.ran = 1</script>", "<img src=x onerror='window.ran = 1'>", "a\x00b\u202ec", "h" * 20_000],
    ids=["script", "handler", "invisible", "long"],
)
def test_hostile_headers_keys_and_values_do_nothing(server: PageServer, page: Page, text: str) -> None:
    headers = tuple((text, decoded(text)) for _ in range(3))
    table = peeked(server, page, ShownRecord(0, 7, -1, decoded(text), decoded({text: None}), headers, 500))
    expect(table.get_by_role("rowheader")).to_have_text("7")
    expect(table).to_contain_text("497 more")
    assert page.evaluate("window.ran") is None
    assert page.evaluate("document.querySelectorAll('main img, main script').length") == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
