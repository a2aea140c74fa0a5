"""The answers that docs/QUERIES.md shows are the real ones, for its topology, records and questions."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import pytest

from tests.actors.rig import APPLICATION
from tests.cluster.local_application import OneLoopTransport
from tests.cluster.queries_page import PAGE, application_of_the_page

EXAMPLES = re.findall(r"^```http\n(GET|POST) …/(\S+)\n(.*?)\n?\n(\{.*?)\n```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_examples_of_the_page_get_the_answers_that_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = application_of_the_page(tmp_path)
    monkeypatch.setattr("ray.get_actor", lambda *_: it)
    url = f"http://localhost/v1/applications/{APPLICATION}/stores/"
    with httpx.Client(transport=OneLoopTransport(APPLICATION), base_url=url) as client:
        for method, path, body, expected in EXAMPLES:
            answer = client.request(method, path, content=body, headers={"Content-Type": "application/json"})
            assert answer.json() == json.loads(expected), path
    assert len(EXAMPLES) == PAGE.count("```http") == 7
    it.close()


def test_every_route_to_stores_is_on_the_page() -> None:
    from fastapi.routing import APIRoute

    from penstock.api.app import create_app
    from tests.api.fake import FakeReadSide

    routes = [route for route in create_app(FakeReadSide()).routes if isinstance(route, APIRoute)]
    paths = [route.path.replace(":path", "") for route in routes if "{store}" in route.path]
    ends = {path.split("/stores/{store}")[1] for path in paths}
    assert len(ends) == 12
    assert {end for end in ends if f"…{end}" not in PAGE} == set()
