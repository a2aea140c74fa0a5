"""The browser of the tests of the page: Debian's Chromium, or Chrome, found by its path."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

PATIENCE_MS = 120_000
"""Deadline of what a page is waited for: the machine may be busy with other tests."""
PATHS = tuple(map(Path, ("/usr/bin/chromium-headless-shell", "/usr/bin/chromium", "/usr/bin/google-chrome")))
_ABSENT = "the page needs a browser: apt-get install chromium-headless-shell (looked for {})"
# Text looks the same on each machine that has the same fonts: no hints of the screen, no colours at its edges.
_ARGUMENTS = ["--font-render-hinting=none", "--disable-lcd-text", "--force-color-profile=srgb"]


def found(paths: Sequence[Path] = PATHS) -> Path:
    """Returns the first browser of ``paths``. If there is none, skips the test; in CI it fails."""
    path = next((path for path in paths if os.access(path, os.X_OK)), None)
    if path is not None:
        return path
    reason = _ABSENT.format(", ".join(map(str, paths)))
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Runs the browser, without a window.

    Meanwhile the thread has a running event loop, that of Playwright: no test in it can call ``asyncio.run``.
    """
    path = found()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS, timeout=PATIENCE_MS)
        yield browser
        browser.close()
