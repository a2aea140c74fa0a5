"""Dead letters in the page: the list, one letter, and replays after their plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from penstock.cluster.letter_side import LetterOrigin, LetterReplay, ReplayRequest, ShownLetter
from penstock.cluster.record_side import Form, ReadsBusyError, Shown, ShownRecord
from tests.page import axe
from tests.page.server import PageServer
from tests.page.test_hostile import HOSTILE
from tests.page.views import THEMES, opened
from tests.page.watch import Watch

TRACE = "Traceback (most recent call last):\n  File \"shop/prices.py\", line 31, in with_price\nKeyError: 'cents'"


def letter(offset: int, exception: str | None = "builtins.KeyError", text: str = '{"euro": 2}') -> ShownLetter:
    """Returns a letter of a record whose value could be decoded, and of which nothing is known but that."""
    raw_key, raw = Shown(Form.TEXT, "ada", 3), Shown(Form.TEXT, text, len(text))
    return ShownLetter(
        ShownRecord(0, offset, 1_767_355_200_000, raw_key, raw, (("trace-id", Shown(Form.TEXT, "abc", 3)),), 60),
        LetterOrigin("orders", 2, 40 + offset),
        exception,
        "'cents'",
        TRACE,
        Shown(Form.DECODED, "ada", 3),
        Shown(Form.DECODED, {"euro": 2}, len(text)),
        (LetterReplay("orders", 1_767_355_260_000),) if offset == 2 else (),
        1,
    )


@pytest.fixture
def lettered(server: PageServer) -> Iterator[PageServer]:
    """The server of an application with three letters, one of them of another program."""
    side = server.side.letters
    side.topic, side.failure = "orders-dlq", None
    side.letters, side.requests = [letter(2), letter(1), letter(0, None)], []
    yield server
    side.topic, side.failure, side.letters = None, None, []


def test_the_letters_are_listed_with_error_origin_and_time(lettered: PageServer, page: Page) -> None:
    view = opened(page, lettered.url, "records")
    view.get_by_role("link", name="Dead letters").click()
    table = view.get_by_role("table", name="The newest dead letters")
    expect(table.get_by_role("rowheader")).to_have_text(["0@2", "0@1", "0@0"])
    row = table.get_by_role("row").nth(1)
    for text in ("builtins.KeyError: 'cents'", "orders 2@42", "2026-01-02T12:00:00", '"ada"', "1 time"):
        expect(row).to_contain_text(text)
    expect(table.get_by_role("row").nth(3)).to_contain_text("another program has written it")


def test_a_letter_shows_its_record_raw_and_decoded_and_the_stack_trace(lettered: PageServer, page: Page) -> None:
    view = opened(page, lettered.url, "records", "letters:")
    view.get_by_role("link", name="0@2").click()
    expect(view.get_by_role("heading", name="Dead letter 0@2")).to_be_focused()
    expect(view.get_by_role("region", name="Stack trace")).to_contain_text("line 31, in with_price")
    expect(view.locator(".stored", has_text="Value, decoded")).to_contain_text('"euro": 2')
    expect(view.locator(".stored", has_text="Value, raw")).to_contain_text('{"euro": 2}')
    expect(view).to_contain_text("59 more")
    view.get_by_role("link", name="All dead letters").click()
    expect(view.get_by_role("table", name="The newest dead letters")).to_be_visible()


def test_a_replay_is_ordered_after_its_plan(lettered: PageServer, page: Page) -> None:
    view = opened(page, lettered.url, "records", "letters:")
    view.get_by_label("Choose 0@1").check()
    view.get_by_label("Choose 0@2").check()
    view.get_by_role("button", name="Replay …").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".plan")).to_have_text("1 letter of 2")
    assert lettered.side.letters.requests == [ReplayRequest(("0@1", "0@2"), dry_run=True)]
    dialog.get_by_label("Letters").select_option("all with error builtins.KeyError")
    expect(dialog.get_by_role("button", name="Replay 1 record")).to_be_enabled()
    dialog.get_by_role("button", name="Replay 1 record").click()
    expect(view.get_by_text("1 record written again.")).to_be_visible()
    expect(dialog).to_have_count(0)
    assert lettered.side.letters.requests[1:] == [
        ReplayRequest(exceptions=("builtins.KeyError",), dry_run=True),
        ReplayRequest(exceptions=("builtins.KeyError",)),
    ]


_CHOSEN_AT_ONCE = """async (select) => {
    select.selectedIndex = 1;
    select.dispatchEvent(new Event("change", { bubbles: true }));
    for (let turn = 0; turn < 20; turn += 1) await null; // what is drawn at once, before anything else happens
    return document.querySelector("dialog .confirm").disabled;
}"""


def test_the_plan_of_other_letters_cannot_be_confirmed(lettered: PageServer, page: Page) -> None:
    view = opened(page, lettered.url, "records", "letters:")
    view.get_by_label("Choose 0@1").check()
    view.get_by_role("button", name="Replay …").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Replay 1 record")).to_be_enabled()
    assert dialog.get_by_label("Letters").evaluate(_CHOSEN_AT_ONCE), "there is no plan of these letters yet"
    expect(dialog.get_by_role("button", name="Replay 1 record")).to_be_enabled()


def test_a_plan_that_fails_leaves_no_earlier_one_of_the_same_letters(
    lettered: PageServer, page: Page, watch: Watch
) -> None:
    watch.expected = ["status of 503"]
    view = opened(page, lettered.url, "records", "letters:")
    view.get_by_label("Choose 0@1").check()
    view.get_by_role("button", name="Replay …").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Replay 1 record")).to_be_enabled()
    lettered.side.letters.failure = ReadsBusyError("a replay is under way")
    for chosen in (1, 0):
        dialog.get_by_label("Letters").select_option(index=chosen)
        expect(dialog).to_contain_text("a replay is under way")
        expect(dialog.locator(".confirm")).to_be_disabled()


def test_one_letter_is_replayed_and_a_refusal_remains_in_the_dialog(
    lettered: PageServer, page: Page, watch: Watch
) -> None:
    watch.expected = ["status of 503"]
    view = opened(page, lettered.url, "records", "letters:0@1")
    view.get_by_role("button", name="Replay …").click()
    dialog = page.get_by_role("dialog")
    replay = dialog.get_by_role("button", name="Replay 1 record")
    expect(replay).to_be_enabled()
    lettered.side.letters.failure = ReadsBusyError("a replay is <b>under way</b>")
    replay.click()
    expect(dialog).to_contain_text("a replay is <b>under way</b>")
    lettered.side.letters.failure = None
    replay.click()
    expect(view.get_by_text("1 record written again.")).to_be_visible()
    assert lettered.side.letters.requests[-1] == ReplayRequest(("0@1",))


def test_a_letter_shows_each_replay_of_it(lettered: PageServer, page: Page) -> None:
    """Two replays of one letter have the same outcome, and so the same sentence."""
    view = opened(page, lettered.url, "records", "letters:0@1")
    for times in (1, 2):
        view.get_by_role("button", name="Replay …").click()
        replays = (LetterReplay("orders", 1_767_355_260_000),) * times
        lettered.side.letters.letters = [replace(letter(1), replays=replays)]
        page.get_by_role("dialog").get_by_role("button", name="Replay 1 record").click()
        expect(view.get_by_text("Replayed", exact=True)).to_have_count(times)


def test_an_application_without_letters_or_without_their_topic_says_so(
    lettered: PageServer, page: Page, watch: Watch
) -> None:
    watch.expected = ["status of 404", "status of 503"]
    lettered.side.letters.letters = []
    view = opened(page, lettered.url, "records", "letters:")
    expect(view).to_contain_text("No dead letters.")
    expect(view.get_by_role("button", name="Replay")).to_have_count(0)
    lettered.side.letters.topic = None
    view.get_by_role("button", name="Read again").click()
    expect(view).to_contain_text("no dead letter topic. docs/BAD_RECORDS.md")
    lettered.side.letters.failure = ReadsBusyError("another topic is being read")
    view.get_by_role("button", name="Read again").click()
    expect(view).to_contain_text("another topic is being read")


def test_a_letter_that_is_not_there_says_so(lettered: PageServer, page: Page, watch: Watch) -> None:
    watch.expected = ["status of 404"]
    expect(opened(page, lettered.url, "records", "letters:0@77")).to_contain_text("has no letter at 0@77")
    expect(opened(page, lettered.url, "records", "letters:../x")).to_contain_text("There is no such place of a letter.")


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_letters_do_nothing(lettered: PageServer, page: Page, text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    raw = Shown(Form.TEXT, text, len(text), clipped=True, problem=text)
    record = ShownRecord(0, 5, -1, raw, None, ((text, raw), (text, None)), 500)
    origin, replays = LetterOrigin(text, None, 3), (LetterReplay(text, 1 << 60),)
    lettered.side.letters.letters = [ShownLetter(record, origin, text, text, text, None, raw, replays, 2)]
    view = opened(page, lettered.url, "records", "letters:")
    view.get_by_label("Choose 0@5").check()
    view.get_by_role("button", name="Replay …").click()
    expect(page.get_by_role("dialog").locator(".plan")).to_be_visible()
    page.keyboard.press("Escape")
    view.get_by_role("link", name="0@5").click()
    expect(view).to_contain_text("498 more")
    assert page.evaluate("[window.ran, Object.prototype.ran]") == [None, None]
    assert page.evaluate("document.querySelectorAll('main img, main script, iframe').length") == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_no_barrier_and_no_sideways_scrolling_on_a_telephone(lettered: PageServer, page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    lettered.side.letters.letters = [letter(1, "a" * 300, "x" * 5_000)]
    for place in ("", "0@1"):
        view = opened(page, lettered.url, "records", f"letters:{place}")
        expect(view.get_by_role("button", name="Replay …")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        for theme in THEMES:
            page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
            assert axe.findings(page) == []
