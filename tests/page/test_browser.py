"""The browser of these tests: where it is looked for, and the description of the API in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.page.chromium import found
from tests.page.server import PageServer
from tests.page.watch import Watch


def test_without_a_browser_the_tests_of_the_page_are_skipped_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"apt-get install chromium-headless-shell \(looked for /no/where"):
        found([Path("/no/where")])


def test_in_ci_a_missing_browser_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="the page needs a browser"):
        found([Path("/no/where")])


def test_the_first_browser_that_can_be_run_is_used(tmp_path: Path) -> None:
    (tmp_path / "second").touch(mode=0o755)
    (tmp_path / "third").touch(mode=0o755)
    assert found([tmp_path / "first", tmp_path / "second", tmp_path / "third"]) == tmp_path / "second"


def test_the_description_of_the_api_needs_no_other_host(server: PageServer, watch: Watch, page: Page) -> None:
    page.goto(server.url + "/docs")
    expect(page.get_by_text("/v1/applications/{app}/pause")).to_be_visible()
    assert len(watch.requests) > 3


def test_a_request_to_another_host_is_a_complaint(server: PageServer, watch: Watch, page: Page) -> None:
    page.goto(server.url + "/healthz")
    with page.expect_console_message():
        page.evaluate("fetch('http://192.0.2.1/').catch(() => null)")
    assert watch.unexpected() == [
        "another host: http://192.0.2.1/",
        "error: Failed to load resource: net::ERR_FAILED (http://192.0.2.1/)",
    ]
    watch.expected = ["192.0.2.1"]
