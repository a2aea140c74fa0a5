"""A tab that reports all that a page must not do: errors, violations of its policy, requests to another host."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Route

# Chromium logs a violation of the content security policy itself, but not one of a policy that only reports.
_REPORT = """document.addEventListener("securitypolicyviolation", (event) =>
    console.error("violated: " + event.violatedDirective + " by " + event.blockedURI + " " + event.sample));"""


@dataclass
class Watch:
    """The complaints about a page. ``expected``: patterns of those that a test provokes."""

    own: str
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def over(self, context: BrowserContext) -> None:
        """Watches all tabs of ``context``. A request to another host than the server's fails."""
        context.add_init_script(_REPORT)
        context.route("**/*", self._route)
        context.on("console", self._console)
        context.on("weberror", lambda error: self.complaints.append(f"uncaught: {error.error}"))

    def unexpected(self) -> list[str]:
        """Returns the complaints that the test did not expect."""
        return [each for each in self.complaints if not any(re.search(known, each) for known in self.expected)]

    def _route(self, route: Route) -> None:
        url = route.request.url
        self.requests.append(url)
        if urlsplit(url).netloc == urlsplit(self.own).netloc:
            route.continue_()
        else:
            self.complaints.append(f"another host: {url}")
            route.abort()

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")


def open_page(context: BrowserContext, watch: Watch, path: str = "/") -> Page:
    """Opens ``path`` of the server in a new tab."""
    page = context.new_page()
    page.goto(watch.own + path)
    return page
