"""The reference of the HTTP API, from the OpenAPI document that a server gives at ``/openapi.json``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

HEAD = """# All routes

Made from the OpenAPI document that each server has at `/openapi.json`. [HTTP](../HTTP.md) is the short form, and
[Queries](../QUERIES.md) has examples.
"""


def page() -> str:
    """Returns the text of the page."""
    from penstock.api.app import create_app

    # The document does not depend on what answers.
    return HEAD + "".join(_sections(create_app(cast(Any, None)).openapi()))


def _sections(document: dict[str, Any]) -> Iterator[str]:
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            yield f"\n## `{method.upper()} {path}`\n\n{route.get('description') or route.get('summary', '')}\n\n"
            if parameters := route.get("parameters"):
                yield "| parameter | in | |\n|---|---|---|\n" + "".join(map(_row, parameters)) + "\n"
            yield "| status | |\n|--:|---|\n"
            for status, answer in route["responses"].items():
                yield f"| {status} | {_cell(answer.get('description', ''))} |\n"


def _row(parameter: dict[str, Any]) -> str:
    needed = "**required.** " if parameter.get("required") and parameter["in"] != "path" else ""
    return f"| `{parameter['name']}` | {parameter['in']} | {needed}{_cell(parameter.get('description', ''))} |\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")
