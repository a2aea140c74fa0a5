"""``penstock stores``; ``tests/cluster/test_command_line.py`` runs it on an application."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from penstock.actors.status import StandbyStatus, TaskState
from penstock.cli.main import app
from penstock.cli.stores import stores_of
from penstock.cluster.queries import queries
from penstock.cluster.ray_cluster import connections
from penstock.cluster.read_side import ApplicationStatus, StoreMetadata
from penstock.common.errors import UnknownStateStoreError
from penstock.common.ids import TaskId
from penstock.common.metric_names import STATE
from tests.cluster.test_findings import actor, application, task

MEASURED = {
    (STATE, "estimate-num-keys", "counts"): 1000, (STATE, "total-sst-files-size", "counts"): 2_500_000,
    (STATE, "num-keys", "recent"): 7,
}  # fmt: skip
RESTORING = task(1, state=TaskState.RESTORING, restore_remaining=300, measured=MEASURED)
STATUS = application(
    actor("one", task(0, measured=MEASURED), standbys=(StandbyStatus(TaskId(0, 1), 12),)),
    actor("two", RESTORING),
    unhosted={TaskId(0, 2): "two is starting"},
)
KNOWN = {
    "counts": StoreMetadata(
        "counts", "timestamped key-value", 0, 3, "t", "t", changelog="app-counts-changelog"
    ),
    "recent": StoreMetadata("recent", "window", 0, 3, "t", "t", persistent=False),
    "countries": StoreMetadata("countries", "key-value", 7, 1, "t", "t", changelog="countries", is_global=True),
}  # fmt: skip


def test_each_partition_has_its_place_its_size_and_its_lag() -> None:
    (_, counts, _) = stores_of(KNOWN, STATUS)
    assert [(it.task_id, it.actor_id, it.state, it.rows, it.bytes_on_disk, it.lag) for it in counts.partitions] == [
        ("0_0", "one", "running", 1000, 2_500_000, 0),
        ("0_1", "two", "restoring", 1000, 2_500_000, 300),
        ("0_2", None, "waiting", None, None, None),
    ]
    assert [(it.actor_id, it.lag) for it in counts.partitions[1].standbys] == [("one", 12)]
    assert (counts.rows, counts.bytes_on_disk) == (2000, 5_000_000)


def test_a_store_in_memory_takes_no_disk_and_a_global_one_has_no_partitions() -> None:
    (countries, _, recent) = stores_of(KNOWN, STATUS)
    assert (recent.rows, recent.bytes_on_disk, recent.persistent) == (14, 0, False)
    assert (countries.partitions, countries.rows, countries.is_global) == ((), None, True)


def test_the_lag_of_a_silent_actor_is_not_known() -> None:
    (_, counts, _) = stores_of(KNOWN, replace(STATUS, silent=frozenset({"two"})))
    assert (counts.partitions[1].state, counts.partitions[1].lag) == ("silent", None)


class Side:
    application_id = "app"

    def __init__(self, _: str) -> None:
        pass

    async def stores(self) -> Mapping[str, StoreMetadata]:
        return KNOWN

    async def status(self) -> ApplicationStatus:
        return STATUS


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "connect_to", lambda application_id: None)
    monkeypatch.setattr(queries, "StateQueries", Side)


@pytest.mark.usefixtures("running")
def test_the_tables_show_stores_and_partitions() -> None:
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["stores", "app"])
    assert done.exit_code == 0, done.output
    lines = [line.split() for line in done.stdout.splitlines() if line.strip()]
    assert " ".join(lines[1]) == "STORE KIND ROWS, ABOUT ON DISK WHERE CHANGELOG"
    assert lines[2] == ["countries", "key-value", "?", "?", "every", "actor", "countries"]
    assert lines[3][:6] == ["counts", "timestamped", "key-value", "2,000", "5.0", "MB"]
    assert lines[3][6:] == ["one,", "two", "app-counts-changelog"]
    assert lines[4] == ["recent", "window", "14", "in", "memory", "one,", "two", "none"]
    assert ["counts", "0_1", "two", "restoring", "1,000", "2.5", "MB", "300", "one", "(12", "behind)"] in lines
    assert ["counts", "0_2", "-", "waiting", "?", "?", "?"] in lines


@pytest.mark.usefixtures("running")
def test_json_has_all_of_it_and_one_store_may_be_named() -> None:
    (counts,) = json.loads(CliRunner().invoke(app, ["stores", "app", "counts", "--json"]).stdout)
    assert (counts["changelog"], counts["rows"]) == ("app-counts-changelog", 2000)
    assert counts["partitions"][1]["standbys"] == [{"actor_id": "one", "lag": 12}]
    assert len(json.loads(CliRunner().invoke(app, ["stores", "app", "--json"]).stdout)) == 3


@pytest.mark.usefixtures("running")
def test_a_store_that_does_not_exist_is_named_with_those_that_do() -> None:
    error = CliRunner().invoke(app, ["stores", "app", "count"]).exception
    assert isinstance(error, UnknownStateStoreError)
    assert "its stores: countries, counts, recent" in str(error)
