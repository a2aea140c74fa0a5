"""The document of the topology."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from penstock.api.page.rollout_bodies import RolloutViewBody
from penstock.api.page.topology_bodies import TopologyBody
from penstock.cluster.program_view import ChangeView, DifferenceView
from penstock.cluster.read_side import Rollout, RolloutPhase
from penstock.common.errors import TaskNotReadyError
from penstock.topology.physical.pictures import svg_of
from tests.api.fake import FakeReadSide, split, word_count

PATH = "/v1/applications/word-count/topology"


def test_it_has_the_picture_that_describe_draws(client: httpx.Client) -> None:
    body = TopologyBody.model_validate(client.get(PATH).json())
    svg = svg_of(word_count().topology, "word-count")
    assert f'width="{body.picture.width}" height="{body.picture.height}"' in svg
    for line in body.picture.lines:
        assert f'd="{line.path}"' in svg
    for box in body.picture.boxes:
        assert f'class="box {box.kind}" id="{box.id}"' in svg
    lanes = {lane.id for lane in body.picture.lanes}
    assert {box.lane for box in body.picture.boxes if box.lane is not None} == lanes
    ids = {box.id for box in body.picture.boxes}
    assert {end for line in body.picture.lines for end in (line.source, line.target)} == ids


def test_operators_have_their_functions_stores_and_topics(client: httpx.Client) -> None:
    body = TopologyBody.model_validate(client.get(PATH).json())
    assert (body.generation, len(body.fingerprint)) == (1, 16)
    (function,) = body.operators["split"].functions
    code = split.__code__
    assert (function.role, function.name) == ("mapper", "split")
    assert (function.file, function.line) == (code.co_filename, code.co_firstlineno)
    assert (body.operators["split"].kind, body.operators["split"].subtopology) == ("flat map values", 0)
    counting = next(each for each in body.operators.values() if each.stores)
    assert (counting.kind, counting.stores, counting.functions) == ("stream count", ["counts"], [])
    internal = {topic for each in body.operators.values() for topic in each.topics if topic.endswith("-repartition")}
    assert all(topic.startswith("word-count-") for topic in internal)
    assert len(internal) == 1
    sinks = [each for each in body.operators.values() if each.topics == ["counts-of-words"]]
    assert [each.kind for each in sinks] == ["sink"]


def test_during_a_roll_out_each_version_can_be_asked_for(client: httpx.Client, read_side: FakeReadSide) -> None:
    read_side.programs[2] = replace(read_side.programs[1], generation=2, fingerprint="another")
    moving = Rollout(generation=2, proven=1, last=2, phase=RolloutPhase.MOVING)
    read_side.current = replace(read_side.current, rollout=moving)
    assert client.get(PATH).json()["fingerprint"] == "another"
    assert client.get(f"{PATH}?generation=1").json()["generation"] == 1


def test_a_version_that_is_not_kept_is_not_found(client: httpx.Client, read_side: FakeReadSide) -> None:
    answer = client.get(f"{PATH}?generation=7")
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:penstock:problem:unknown-version")
    assert "version 7 of the program" in answer.json()["detail"]
    read_side.programs.clear()
    assert client.get(PATH).status_code == 404


@pytest.mark.parametrize("wrong", ["0", "-1", "one", "1.5"])
def test_a_version_is_a_number_from_1(client: httpx.Client, wrong: str) -> None:
    assert client.get(f"{PATH}?generation={wrong}").status_code == 422


def test_a_coordinator_that_does_not_answer_is_asked_again(client: httpx.Client, read_side: FakeReadSide) -> None:
    read_side.failure = TaskNotReadyError("the coordinator of 'word-count' does not answer")
    answer = client.get(PATH)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


# ---- roll-outs ----

ROLLOUT = "/v1/applications/word-count/rollout"


def test_a_roll_out_shows_what_differs_in_the_words_of_penstock_plan(
    client: httpx.Client, read_side: FakeReadSide
) -> None:
    body = RolloutViewBody.model_validate(client.get(ROLLOUT).json())
    assert (body.phase, body.difference, list(body.fingerprints)) == ("done", None, ["1"])
    changes = (
        ChangeView("tasks", "kept", False, "0_*", "0_*", "0_*"),
        ChangeView("store", "moved", False, "counts", "1_*", "2_*", note="restored"),
        ChangeView("topic", "new", False, "more", use="output"),
    )
    read_side.difference = DifferenceView(1, 2, changes, ("+ Processor: more \ud800",), 1)
    moving = Rollout(generation=2, proven=1, last=2, phase=RolloutPhase.MOVING)
    read_side.current = replace(read_side.current, rollout=moving)
    body = RolloutViewBody.model_validate(client.get(ROLLOUT).json())
    assert (body.generation, body.phase) == (2, "moving")
    assert body.difference is not None
    assert [each.fate for each in body.difference.changes] == ["kept", "moved", "new"]
    assert body.difference.lines == ["+ Processor: more ?"]
