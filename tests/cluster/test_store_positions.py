"""Positions (KIP-796): each answer has the positions of its stores, and a caller may demand as much."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest

import penstock as ps
from penstock.cluster.queries.queryable import views_of
from penstock.cluster.queries.state_query import answer as answer_query
from penstock.cluster.queries.store_reader import StoreQuestions, StoreReader
from tests.cluster.local_application import LocalApplication
from tests.cluster.test_store_questions import KINDS, PARTITIONS
from tests.cluster.test_store_questions import application as application
from tests.cluster.test_store_questions import client as client
from tests.cluster.test_store_questions import reader as reader

STRING, DAY = ps.Serdes.string(), timedelta(days=1)


def test_every_answer_reports_the_position_of_its_stores(application: LocalApplication, client: httpx.Client) -> None:
    for partition in range(PARTITIONS):
        for number in range(partition + 1):
            application.write("in", f"k{partition}", str(number), 1000 + number, partition)
    application.settle()
    whole = {"in": {"0": 0, "1": 1, "2": 2}}
    for path in ("all/range", "all/range?prefix=k", "all/approximate-count", "windows/windows", "sessions/sessions"):
        assert client.get(path).json()["position"] == whole, path
    assert client.get("all/range?isolation=committed").json()["position"] == {}
    application.commit()
    assert client.get("all/range?isolation=committed").json()["position"] == whole
    for absent in ("all/keys/nobody", "windows/windows/nobody"):
        assert client.get(absent).json()["position"] == whole, "every task has said that it has no such key"
    assert client.post("all/keys:batch", json={"keys": ["k0", "x", "y", "z", "w"]}).json()["position"] == whole
    assert client.get("versions/history/nobody").json()["position"] == {}


def test_an_answer_that_must_not_be_older_than_a_record_waits_for_it(
    application: LocalApplication, client: httpx.Client
) -> None:
    offset = application.write("in", "a", "x", 1000)
    application.settle()
    partition = next(iter(client.get("all/keys/a").json()["position"]["in"]))
    for path, value in (("all/keys/a", "y"), ("all/range", "z"), ("windows/windows", "w")):
        offset = application.write("in", "a", value, 2000)
        answer = client.get(path, params={"not_older_than": f'{{"in":{{"{partition}":{offset}}}}}'})
        assert answer.status_code == 200
        assert f'{value}"' in answer.text, "it has seen the record"
    ahead = f'{{"in":{{"{partition}":{offset + 1}}}}}'
    for path in ("all/keys/a", "all/range", "windows/windows/a", "windows/windows", "all/approximate-count"):
        refused = client.get(path, params={"not_older_than": ahead, "wait_ms": 30})
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert refused.json()["type"] == "urn:penstock:problem:not-up-to-bound"
        assert refused.json()["position"] == {"in": {partition: offset}}
        assert "has not reached the demanded position, within 0.03 s" in refused.json()["detail"]
    body = {"keys": ["a"]}
    assert client.post("all/keys:batch", json=body, params={"not_older_than": ahead, "wait_ms": 0}).status_code == 503


def test_a_task_is_held_to_its_own_partition_alone(application: LocalApplication, client: httpx.Client) -> None:
    application.write("in", "a", "x", 1000)
    application.settle()
    partition = next(iter(client.get("all/keys/a").json()["position"]["in"]))
    other = (int(partition) + 1) % PARTITIONS
    parameters: dict[str, str | int] = {"not_older_than": f'{{"in":{{"{other}":7}}}}', "wait_ms": 0}
    assert client.get("all/keys/a", params=parameters).status_code == 200
    assert client.get("all/range", params=parameters).status_code == 503


def test_a_committed_read_waits_for_a_committed_position(application: LocalApplication, client: httpx.Client) -> None:
    application.write("in", "a", "x", 1000, partition=0)
    application.settle()
    parameters: dict[str, str | int] = {"not_older_than": '{"in":{"0":0}}', "wait_ms": 0, "isolation": "committed"}
    assert client.get("all/range", params=parameters).status_code == 503
    application.commit()
    assert client.get("all/range", params=parameters).json()["entries"][0]["value"] == "x"


def test_a_position_in_topics_that_a_store_is_not_kept_from_is_refused_with_those_that_it_is(
    application: LocalApplication, client: httpx.Client
) -> None:
    answer = client.get("all/range", params={"not_older_than": '{"prices":{"0":0}}'})
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:penstock:problem:unknown-position")
    assert answer.json()["detail"] == "store 'all' is kept from in, not from prices"


def test_a_global_store_has_a_position_in_all_partitions(application: LocalApplication, client: httpx.Client) -> None:
    for partition in range(PARTITIONS):
        application.write("users", f"u{partition}", "x", 1, partition)
    application.settle()
    answer = client.get("users/keys/u1").json()
    assert answer["value"] == "x"
    assert answer["position"] == {"users": {"0": 0, "1": 0, "2": 0}}
    ahead: dict[str, str | int] = {"not_older_than": '{"users":{"2":1}}', "wait_ms": 0}
    assert client.get("users/keys/u1", params=ahead).status_code == 503
    application.write("users", "u2", "y", 1, 2)
    assert client.get("users/keys/u2", params={**ahead, "wait_ms": 5000}).json()["value"] == "y"
    application.commit()
    committed = client.get("users/range?isolation=committed").json()
    assert committed["position"] == {"users": {"0": 0, "1": 0, "2": 1}}


def test_views_may_demand_a_position_and_answers_carry_theirs(
    application: LocalApplication, reader: StoreReader
) -> None:
    application.write("in", "a", "x", 1000, partition=0)
    application.settle()
    at = ps.Position.empty_position().with_component("in", 0, 0)
    request = ps.StateQueryRequest.in_store("all").with_query(ps.RangeQuery())
    result = answer_query(reader, request)
    assert ([entry.key for entry in result.result], result.position) == (["a"], at)
    ahead = ps.PositionBound.at(at.with_component("in", 0, 1))
    with pytest.raises(ps.NotUpToBoundError) as refused:
        answer_query(reader, request.with_position_bound(ahead, wait_s=0.0))
    assert refused.value.position == at
    builder = application.topology.store_builders["all"]
    shape = builder.kind, views_of(builder)
    late = KINDS.key_value_store().of(*shape, StoreQuestions(reader, "all", ahead, 0.0))
    with pytest.raises(ps.NotUpToBoundError):
        list(late.all())
    application.write("in", "a", "y", 1000, partition=0)
    patient = KINDS.key_value_store().of(*shape, StoreQuestions(reader, "all", ahead, 10.0))
    assert list(patient.all()) == [("a", "xy")]
    assert ahead.position.merge(at) == ahead.position
    foreign = ps.PositionBound.at(ps.Position.from_map({"prices": {0: 0}}))
    with pytest.raises(ps.PositionError, match="'all' is kept from in, not from prices"):
        answer_query(reader, request.with_position_bound(foreign))
