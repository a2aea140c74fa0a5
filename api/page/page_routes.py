"""Serves the page. Its files hold no data of the application, so they need no token: the page asks for one."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from penstock.api.compression import accepts_gzip, weights
from penstock.api.page.files import PageFile, page_files

_HTML, _JSON = "text/html", "application/json"
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of the page and its files: no inline script or style, nothing from another site, and not within another
site's page. The server adds ``X-Content-Type-Options: nosniff`` to all answers."""


def add_to(app: FastAPI) -> None:
    """Add the route of the page's files."""
    page_files()  # a file that is missing is an error at the start

    @app.get("/page/{name}", include_in_schema=False)
    async def file(name: str, request: Request) -> Response:
        """A file of the page."""
        found = page_files().get(name)
        if found is None:
            raise HTTPException(404)
        return _answer(found, request)


def index(request: Request) -> Response:
    """Returns the page."""
    answer = _answer(page_files()["index.html"], request)
    answer.headers["Vary"] = "Accept, Accept-Encoding"
    return answer


def wants_page(request: Request) -> bool:
    """True if the request prefers the page to JSON, as browsers do: a client that accepts everything gets JSON."""
    accepted = dict(weights(request.headers.get("accept", "")))
    page = accepted.get(_HTML, 0.0)
    return page > 0 and page >= accepted.get(_JSON, 0.0)


def _answer(file: PageFile, request: Request) -> Response:
    compressed = accepts_gzip(request)
    tag = f'"{file.tag}-gzip"' if compressed else f'"{file.tag}"'
    headers = {**SECURITY_HEADERS, "ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    known = request.headers.get("if-none-match", "")
    if tag in [each.strip().removeprefix("W/") for each in known.split(",")]:
        return Response(status_code=304, headers=headers)
    if compressed:
        headers["Content-Encoding"] = "gzip"
    return Response(file.compressed if compressed else file.content, headers=headers, media_type=file.media_type)
