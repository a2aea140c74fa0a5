"""The live document: what it says of a status."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from penstock.actors.status import StandbyStatus, TaskState
from penstock.api.encoding import shown_json
from penstock.api.page.deltas import Document
from penstock.api.page.live_bodies import LiveDocument
from penstock.api.page.live_view import LiveView
from penstock.cluster.health import Health
from penstock.cluster.missing_brokers import BrokerLosses, MissingBroker
from penstock.cluster.read_side import ActorCount, ApplicationState, ApplicationStatus, ScalingStatus
from penstock.common.ids import TaskId, TopicPartition
from penstock.common.metric_names import NODE, STATE, THREAD, TOPIC
from tests.api.fake import STATUS
from tests.cluster.test_findings import actor, application, task

HOSTILE = '</script><img src=x onerror="alert(1)">\u202e\u0000\r\n\n: data'


def rows(document: Document) -> LiveDocument:
    """Returns the document as its clients have it; fails if it is not as the OpenAPI document says."""
    whole = orjson.loads(shown_json(document))
    whole["application"]["it"]["may_operate"] = False
    return LiveDocument.model_validate(whole)


def live(*statuses: ApplicationStatus) -> LiveDocument:
    """Returns the document after the last of ``statuses``, which come 2 s apart."""
    view = LiveView()
    documents = [
        view.document(status, 10.0 + 2 * number, 1000 * number) for number, status in enumerate(statuses)
    ]  # fmt: skip
    return rows(documents[-1])


def test_every_task_has_a_row_whether_an_actor_reports_it_or_not() -> None:
    document = live(replace(STATUS, unhosted={TaskId(1, 1): "stream/3 is starting"}))
    assert {id: each.state for id, each in document.tasks.items()} == {
        "0_0": "restoring", "0_1": "waiting", "1_0": "running", "1_1": "waiting",
    }  # fmt: skip
    assert document.tasks["1_1"].waits_for == "stream/3 is starting"
    assert document.tasks["0_1"].actor_id == "actor-2"
    restore = document.tasks["0_0"].restore
    assert restore is not None
    assert (restore.restored, restore.remaining, restore.records_per_s, restore.seconds_left) == (30, 9, 6.0, 1.5)
    (partition,) = document.tasks["1_0"].topics
    assert (partition.topic, partition.lag, partition.committed) == ("word-count-counts-repartition", 5, 100)


def test_a_silent_actor_shows_no_figures() -> None:
    committed = {TopicPartition("in", 0): 3}
    loud = actor("one", task(0, lag=7, committed=committed, measured={(NODE, "records-rate", "split"): 5.0}), busy=0.4)
    document = live(replace(application(loud), silent=frozenset({"one"})))
    silent = document.tasks["0_0"]
    assert (silent.state, silent.lag, silent.behind_s, silent.busy) == ("silent", None, None, None)
    assert (document.actors["one"].state, document.actors["one"].busy) == ("silent", None)
    assert document.actors["one"].shares == {}
    assert [(each.lag, each.committed) for each in silent.topics] == [(None, 3)], "what is committed holds"
    assert document.operators == {}
    assert document.application["it"].lag_is_known is False


def test_the_document_has_the_number_of_actors_that_the_load_needs() -> None:
    status = application(actor("one", task(0)))
    unmeasured = ScalingStatus(wanted=2, advised=7, reason="", automatic=False, minimum=1, maximum=8)
    measured = replace(unmeasured, counts=(ActorCount(7, 1, 0.6, 5.0),))
    statuses = (status, replace(status, scaling=unmeasured), replace(status, scaling=measured))
    assert [live(each).application["it"].advised_actors for each in statuses] == [None, None, 7]


def test_rates_are_of_the_time_between_two_answers() -> None:
    def status(processed: int, read: int, written: int) -> ApplicationStatus:
        measured = {
            (TOPIC, "records-consumed-total", "source", "in"): read,
            (TOPIC, "records-produced-total", "sink", "out"): written,
            (TOPIC, "bytes-produced-total", "sink", "out"): written * 10,
        }
        return application(actor("one", task(0, records_processed=processed, measured=measured)))

    first = live(status(1_000_000, 500, 100))
    assert first.topics["in"].records_in_per_s is None, "a rate needs two answers"
    document = live(status(1_000_000, 500, 100), status(1_000_300, 700, 150))
    assert document.tasks["0_0"].records_per_s == 150
    assert document.application["it"].records_per_s == 150
    assert document.topics["in"].records_in_per_s == 100
    assert (document.topics["out"].records_out_per_s, document.topics["out"].bytes_out_per_s) == (25, 250)
    assert document.topics["out"].lag is None, "no task reads it"


def test_the_lag_of_a_topic_is_that_of_all_its_partitions() -> None:
    document = live(application(actor("one", task(0, lag=5), task(1, lag=0)), actor("two", task(2, lag=7))))
    assert document.topics["in"].lag == 12


def test_a_task_that_is_first_seen_later_begins_without_a_rate() -> None:
    before = application(actor("one", task(0, records_processed=5)))
    after = application(actor("one", task(0, records_processed=5), task(1, records_processed=1_000_000)))
    assert live(before, after).tasks["0_1"].records_per_s == 0


def test_figures_of_operators_are_summed_and_their_busiest_task_is_shown() -> None:
    def node(rate: float, busy: float, breaker: int) -> Any:
        return {
            (NODE, "records-rate", "enrich"): rate, (NODE, "busy-ratio", "enrich"): busy,
            (NODE, "calls-in-flight", "enrich"): 3, (NODE, "calls-breaker-state", "enrich"): breaker,
            (NODE, "process-rate", "source"): 7.0,
        }  # fmt: skip

    status = application(
        actor("one", task(0, measured=node(100.0, 0.25, 0))), actor("two", task(1, measured=node(50.0, 0.9, 2)))
    )
    document = live(status)
    enrich = document.operators["enrich"]
    assert (enrich.records_per_s, enrich.busy, enrich.busy_sum) == (150, 0.9, 1.15)
    assert (enrich.calls_in_flight, enrich.calls_waiting, enrich.breaker) == (6, None, "open")
    assert (document.operators["source"].records_per_s, document.operators["source"].busy) == (14, None)


def test_a_broker_that_is_away_shows_at_its_topics_and_at_the_tasks_that_wait_for_it() -> None:
    away = MissingBroker(2, "two:9092", 1_000, (TopicPartition("in", 1),), (TopicPartition("out", 3),))
    losses = BrokerLosses((away,), (("in", 2), ("out", 4)))
    document = live(replace(application(actor("one", task(0), task(1))), health=Health(brokers=losses)))
    found = {name: (each.without_leader, each.missing_brokers) for name, each in document.topics.items()}
    assert found == {"in": ([1], ["2 (two:9092)"]), "out": ([], ["2 (two:9092)"])}
    assert document.tasks["0_1"].waits_for == "partition 1 of topic in has no leader"
    assert document.tasks["0_0"].waits_for is None
    assert [document.tasks[name].topics[0].has_leader for name in ("0_0", "0_1")] == [True, False]


def test_figures_of_stores_and_of_rocksdb_are_summed() -> None:
    def store(keys: int, size: int) -> Any:
        return {
            (STATE, "estimate-num-keys", "counts"): keys, (STATE, "live-sst-files-size", "counts"): size,
            (STATE, "cur-size-all-mem-tables", "counts"): 1, (STATE, "block-cache-usage", "counts"): 64,
        }  # fmt: skip

    one = actor("one", task(0, measured=store(3, 100)), task(1, state=TaskState.RESTORING, measured=store(4, 200)))
    document = live(application(one))
    counts = document.stores["counts"]
    assert (counts.rows, counts.bytes, counts.restoring, counts.subtopology) == (7, 302, 1, 0)
    assert document.actors["one"].rocksdb["live_sst_files_size_bytes"] == 300
    assert document.actors["one"].rocksdb["block_cache_usage_bytes"] == 64, "each store reports that of the actor"


def test_write_stalls_are_those_of_tasks_and_each_store_reports_that_of_its_task() -> None:
    def stores(waited_ms: float, rate: float, stopped: int) -> Any:
        return {
            (STATE, name, store): value
            for store in ("counts", "sums")
            for name, value in (
                ("write-stall-duration-total", waited_ms),
                ("actual-delayed-write-rate", rate),
                ("is-write-stopped", stopped),
            )
        }

    one = actor("one", task(0, measured=stores(1500, 8_000_000, 1)), task(1, measured=stores(500, 0, 1)))
    rocksdb = live(application(one)).actors["one"].rocksdb
    assert rocksdb == {
        "write_stall_ms": 2000, "delayed_write_bytes_per_s": 8_000_000, "tasks_with_writes_stopped": 2
    }  # fmt: skip


def test_an_actor_shows_all_shares_of_its_time_that_are_measured() -> None:
    measured = {
        (THREAD, "wait-broker-ratio"): 0.25, (THREAD, "gc-ratio"): 0.125,
        (THREAD, "gc-full-total"): 3, (THREAD, "thread-start-time"): 77,
    }  # fmt: skip
    document = live(application(actor("one", task(0), busy=0.5, measured=measured)))
    assert document.actors["one"].shares == {"process": 0.5, "poll": 0.0, "wait_broker": 0.25, "gc": 0.125}
    assert document.actors["one"].gc == {"full_total": 3}
    assert document.application["it"].started_ms == 77


def test_standbys_and_moves_are_part_of_a_task() -> None:
    two = actor("two", standbys=(StandbyStatus(TaskId(0, 0), 12),))
    document = live(replace(application(actor("one", task(0)), two), moving={TaskId(0, 0): "two"}))
    (standby,) = document.tasks["0_0"].standbys
    assert (standby.actor_id, standby.node_id, standby.lag) == ("two", "node", 12)
    assert document.tasks["0_0"].moving_to == "two"
    assert document.actors["two"].standbys == ["0_0"]


@pytest.mark.parametrize("state", ApplicationState)
def test_every_state_has_a_document(state: ApplicationState) -> None:
    assert live(replace(STATUS, state=state)).application["it"].state == state.value


def test_hostile_names_stay_data_and_end_no_event() -> None:
    topic = TopicPartition(HOSTILE, 0)
    measured: Any = {(NODE, "records-rate", HOSTILE): 1.0, (TOPIC, "records-consumed-total", "s", HOSTILE): 1}
    each = replace(task(0, measured=measured), lags={topic: 1}, committed={topic: 1}, waits_for=HOSTILE + "\ud800")
    status = replace(application(actor(HOSTILE, each, error=HOSTILE)), waiting=HOSTILE, error=HOSTILE)
    document = live(status)
    assert set(document.operators) == set(document.topics) == set(document.actors) == {HOSTILE}
    assert document.actors[HOSTILE].error == HOSTILE
    assert document.tasks["0_0"].waits_for == HOSTILE + "?", "no character that JSON cannot have breaks the stream"
    sent = shown_json(LiveView().document(status, 0.0, 0))
    assert b"\n" not in sent
    assert b"\r" not in sent


def test_a_document_shows_since_when_its_findings_hold() -> None:
    behind = application(actor("one", task(0, lag=5, behind_s=22.0), busy=0.97), since={"behind": 1000})
    (finding,) = live(behind).findings.values()
    assert (finding.level, finding.since_ms) == ("warning", 1000)
    assert (finding.view, finding.subject) == ("tasks", "0_0")
