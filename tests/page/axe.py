"""axe-core, which looks for barriers of accessibility in a page. It is a package of ``page/``, for tests alone."""

from __future__ import annotations

import json
import runpy
from functools import cache
from typing import Any

from playwright.sync_api import Page

from tests.architecture.sources import ROOT

_SCRIPT = ROOT / "page" / "node_modules" / "axe-core" / "axe.min.js"
# It runs by the browser's debugger, which the content security policy does not bind; so it must not load style sheets.
_RUN = "() => axe.run(document, { preload: false })"


def findings(page: Page) -> list[str]:
    """Returns each barrier with the parts of the page that have it. The list is empty if axe finds none."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(_source())
    result: dict[str, Any] = page.evaluate(_RUN)
    assert len(result["passes"]) > 5, "axe has looked at the page"
    return [
        f"{rule['id']}: {rule['help']}: {json.dumps(node['target'])} {node['html'][:200]} {node['failureSummary']}"
        for rule in result["violations"]
        for node in rule["nodes"]
    ]


@cache
def _source() -> str:
    runpy.run_path(str(ROOT / "requirements" / "page.py"))["install"]()
    return _SCRIPT.read_text()
