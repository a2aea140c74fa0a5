"""Names, sentences and figures that others have made up: they do nothing, and can be read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from penstock.cluster.read_side import ApplicationState, ApplicationStatus
from penstock.common.ids import TaskId
from penstock.common.metric_names import NODE, TASK
from tests.page.applications import lags, with_actor, with_task
from tests.page.server import PageServer
from tests.page.views import VIEWS, finding, opened

HOSTILE = {
    "script": "<script>window.ran = 1</script>",
    "handler": "<img src=x onerror='window.ran = 1'>\" onmouseover=\"window.ran = 1",
    "address": "javascript:window.ran=1//",
    "template": "{{constructor.constructor('window.ran = 1')()}}${window.ran = 1}",
    "right to left": "safe\u202egnp.exe\u2066\u2069\u200f",
    "controls": "a\x00b\x1b[31m\x07\r\n\x7f\u2028",
    "prototype": "__proto__",
    "constructor": "constructor",
    "half a character": "caf\udce9",  # the name of a file that is no UTF-8, as Python has it
    "long": "n" * 10_000,
    "empty": "",
    "path": "../../..%2f?x=1#/tasks",
    "combining": "Z" + "\u0351\u0344" * 500,
}


def hostile(status: ApplicationStatus, text: str) -> ApplicationStatus:
    """Returns ``status`` with this text wherever a user, or another system, can put one."""
    error = with_actor(status, "stream/1", error=text or "an error", node_id=text)
    late = with_task(error, "0_1", behind_s=50.0, lags=lags(text, 1, 7), waits_for=text or None)
    named = with_task(late, "0_0", measured={(TASK, "process-rate"): 5.0, (NODE, "records-rate", text): 5.0})
    first = named.actors[0]
    return replace(
        named,
        actors=(replace(first, actor_id=text), *named.actors[1:]),
        placement={task: text if actor == first.actor_id else actor for task, actor in named.placement.items()},
        waiting=text or None,
        unhosted={TaskId(0, 9): text},
    )


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_text_does_nothing_in_any_view(server: PageServer, page: Page, text: str) -> None:
    server.side.current = hostile(server.side.current, text)
    for view in VIEWS:
        opened(page, server.url, view)
        expect(page.locator(".finding[data-level=fault]").first).to_be_visible()
        assert page.evaluate("[window.ran, Object.prototype.ran, ({}).polluted]") == [None, None, None]
        assert page.evaluate("document.querySelectorAll('body script, body img, iframe').length") == 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # The page continues: the next figures are shown.
    server.side.current = replace(server.side.current, state=ApplicationState.REBALANCING)
    expect(page.locator("header .state")).to_have_text("rebalancing")


@pytest.mark.parametrize("subject", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_address_does_nothing(server: PageServer, page: Page, subject: str) -> None:
    subject = subject.encode("utf-8", "replace").decode()
    for view in VIEWS:
        opened(page, server.url, view, subject)
        assert page.evaluate("window.ran") is None
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_invisible_characters_are_shown(server: PageServer, page: Page) -> None:
    server.side.current = replace(server.side.current, waiting="a\x00b\u202ec")
    opened(page, server.url)
    expect(finding(page, "\\x00")).to_contain_text("\\u202e")


def test_an_error_of_five_megabytes_is_cut_and_the_page_goes_on(server: PageServer, page: Page) -> None:
    server.side.current = with_actor(server.side.current, "stream/1", error="x" * 5_000_000)
    opened(page, server.url)
    expect(finding(page, "has failed")).to_be_visible()
    assert page.evaluate("document.body.textContent.length") < 50_000
    server.side.current = with_actor(server.side.current, "stream/1", error="short again")
    expect(finding(page, "short again")).to_be_visible()


@pytest.mark.parametrize("behind", [float("nan"), float("inf"), -1.0, 1e300, 0.0], ids=str)
def test_figures_that_are_none_are_dashes_and_never_nan(server: PageServer, page: Page, behind: float) -> None:
    status = with_task(server.side.current, "0_0", behind_s=behind, lags=lags("orders", 0, 2**62), measured={})
    server.side.current = status
    for view in VIEWS:
        opened(page, server.url, view)
        text = page.locator("main").inner_text()
        assert [word for word in ("NaN", "undefined", "null/s", "null s", "Infinity", "[object") if word in text] == []
