"""A client of an application's HTTP API that asks again after 503, as the API demands."""

from __future__ import annotations

from typing import Any

import httpx
from typing_extensions import override

from tests.waiting import PATIENCE_S, eventually


class _AsksAgain(httpx.HTTPTransport):
    @override
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answers: list[httpx.Response] = []

        def is_final() -> bool:
            answers[:] = [super(_AsksAgain, self).handle_request(request)]
            if answers[0].status_code != 503 or request.method != "GET":
                return True
            answers[0].close()
            return False

        eventually(is_final, f"an answer other than 503 of {request.url}")
        return answers[0]


def patient_client(address: str, verify: Any = True, **more: Any) -> httpx.Client:
    """Returns a client that repeats a GET until the answer is not 503. The server answers 503 while a task moves, or if
    a busy machine keeps an actor from answering in time. ``more``: arguments of ``httpx.Client``."""
    return httpx.Client(base_url=address, transport=_AsksAgain(verify=verify), timeout=PATIENCE_S, **more)
