"""``deploy/grafana-dashboard.json`` asks only for what penstock exports; for a running one, see ``tests/cluster``."""

from __future__ import annotations

import copy
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from penstock.api.metrics import exposition
from penstock.cluster.coordinator_shell.ray_metrics import RayMetrics
from penstock.cluster.queries.metrics import metric_families
from penstock.cluster.status import ApplicationState, ApplicationStatus
from penstock.common.metric_names import KINDS
from tests.actors.rig import Rig, settle
from tests.deploy.dashboard import dashboard, missing_from, targets

pytestmark = pytest.mark.xdist_group("dashboard")


@pytest.fixture(scope="module")
def status(tmp_path_factory: pytest.TempPathFactory) -> ApplicationStatus:
    """The status of an application that has counted some records."""
    rig = Rig(tmp_path_factory.mktemp("state"))
    loop = rig.running()
    rig.write("in", ("a", "x", 1), ("b", "x", 2))
    rig.commit(loop)
    asked = loop.status()
    settle(loop)
    return ApplicationStatus("app", ApplicationState.RUNNING, 1, (asked.result(),), {})


@pytest.fixture(scope="module")
def scrape(status: ApplicationStatus) -> str:
    return exposition(status).decode()


def test_every_metric_and_label_that_it_names_is_exported(scrape: str) -> None:
    assert missing_from(scrape, dashboard()) == []


@pytest.mark.parametrize(
    ("was", "now", "found"),
    [
        (
            "streams_stream_task_process_total",
            "streams_stream_task_processed_total",
            "metric kafka_streams_stream",
        ),
        ("by (task_id)", "by (taks_id)", "label taks_id to group by"),
        ('application_id="$', 'aplication_id="$', "label aplication_id of"),
        ("{{task_id}}", "{{thread_id}}", "label thread_id to show"),
    ],
)
def test_a_misspelt_one_would_be_found(scrape: str, was: str, now: str, found: str) -> None:
    board = copy.deepcopy(dashboard())
    for title, target in targets(board):
        if title == "Records processed per second":
            before = target["expr"], target["legendFormat"]
            target["expr"], target["legendFormat"] = (each.replace(was, now) for each in before)
            assert before != (target["expr"], target["legendFormat"])
    assert any(found in each for each in missing_from(scrape, board)), missing_from(scrape, board)


def test_metrics_of_rays_endpoint_have_the_same_names_with_the_prefix_ray(status: ApplicationStatus) -> None:
    lines: list[str] = []

    class Printed:
        def __init__(self, name: str, description: str, tags: tuple[str, ...]) -> None:
            self.name = name
            lines.append(f"# TYPE ray_{name} gauge")

        def set(self, value: float, tags: dict[str, str], /) -> None:
            labels = ",".join(f'{name}="{text}"' for name, text in tags.items())
            lines.append(f"ray_{self.name}{{{labels}}} {value}")

    RayMetrics(Printed).publish(metric_families(status))
    assert missing_from("\n".join(lines) + "\n", dashboard(), "ray_kafka") == []


def test_it_has_what_grafana_asks_of_a_dashboard() -> None:
    board = dashboard()
    assert board["schemaVersion"] >= 39
    assert board["title"]
    numbers = [panel["id"] for panel in board["panels"]]
    assert len(numbers) == len(set(numbers))
    assert {panel["type"] for panel in board["panels"]} == {"row", "stat", "timeseries", "heatmap"}
    known = {variable["name"] for variable in board["templating"]["list"]}
    assert known == {"datasource", "names", "application"}
    for title, target in targets(board):
        used = set(re.findall(r"\$\{?(\w+)\}?", target["expr"]))
        assert used <= known | {"__rate_interval"}, title
        assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def _cells(panel: dict[str, Any]) -> set[tuple[int, int]]:
    at = panel["gridPos"]
    return {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}


def test_no_panel_lies_on_another_or_beyond_the_edge() -> None:
    panels = dashboard()["panels"]
    for one, other in combinations(panels, 2):
        assert not _cells(one) & _cells(other), (one["title"], other["title"])
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)


def test_every_metric_that_is_measured_is_described_once_and_in_the_docs() -> None:
    names = [(kind.group, kind.name) for kind in KINDS]
    assert len(names) == len(set(names))
    page = (Path(__file__).parents[2] / "docs" / "METRICS.md").read_text()
    assert [kind.name for kind in KINDS if f"`{kind.name}`" not in page] == []


def test_all_that_an_application_measures_is_among_those_described(status: ApplicationStatus) -> None:
    described = {(kind.group, kind.name) for kind in KINDS}
    for actor in status.actors:
        for measured in (actor.measured, *(task.measured for task in actor.tasks)):
            assert {key[:2] for key in measured} <= described
