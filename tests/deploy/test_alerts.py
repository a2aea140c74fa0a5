"""The alerts for Prometheus, each played against what ``/metrics`` shows of an application in trouble.

None of them may fire for an application that is well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml

from penstock.actors.status import ActorStatus, StandbyStatus, TaskState, TaskStatus
from penstock.api.metrics import exposition
from penstock.cluster.health import Health
from penstock.cluster.missing_brokers import BrokerLosses
from penstock.cluster.status import ApplicationState, ApplicationStatus, StuckTask
from penstock.common import metric_names
from penstock.common.ids import TaskId, TopicPartition
from tests.deploy.promql import Labels, Scrapes, Vector, evaluate, metrics_of

FILE = Path(__file__).parents[2] / "deploy" / "prometheus-alerts.yaml"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in yaml.safe_load(FILE.read_text())["groups"] for rule in group["rules"]
}
SCRAPE_S = 15
MINUTE, HOUR = 60, 3600
APP, ACTOR, TASK, SOURCE = "word-count", "stream/1", TaskId(0, 0), TopicPartition("words", 0)
PARTED = (metric_names.TASK, "parted-joins")

WELL = ApplicationStatus(
    APP,
    ApplicationState.RUNNING,
    3,
    (
        ActorStatus(
            ACTOR, "node", 1, 3, (TaskStatus(TASK, TaskState.RUNNING, 100, lags={SOURCE: 5}, measured={PARTED: 0}),),
            standbys=(StandbyStatus(TaskId(0, 1), 7, 100),),
        ),
    ),
    {TASK: ACTOR},
    health=Health(report_ages_s={ACTOR: 0.4}),
)  # fmt: skip
At = Callable[[float], ApplicationStatus | None]
"""The status at a time, in seconds; None while nothing answers."""


def with_health(**changes: Any) -> ApplicationStatus:
    return replace(WELL, health=replace(WELL.health, **changes))


def with_task(**changes: Any) -> ApplicationStatus:
    (actor,) = WELL.actors
    (task,) = actor.tasks
    return replace(WELL, actors=(replace(actor, tasks=(replace(task, **changes),)),))


def with_actor(**changes: Any) -> ApplicationStatus:
    (actor,) = WELL.actors
    return replace(WELL, actors=(replace(actor, **changes),))


@dataclass
class Prometheus:
    """Scrapes every 15 s, evaluates every rule as often, and notes when each has fired, and for which series."""

    fired: dict[str, list[tuple[float, Labels]]] = field(default_factory=dict)
    _pending: dict[tuple[str, Labels], float] = field(default_factory=dict)
    _scrapes: Scrapes = field(default_factory=Scrapes)

    def watch(self, at: At, until_s: float) -> Prometheus:
        for time_s in range(0, int(until_s) + 1, SCRAPE_S):
            status = at(time_s)
            if status is None:
                self._scrapes.fail(time_s)
            else:
                self._scrapes.add(time_s, exposition(status).decode())
            for name, rule in RULES.items():
                self._judge(name, rule, evaluate(promql.parse(rule["expr"]), self._scrapes, time_s), time_s)
        return self

    def _judge(self, name: str, rule: dict[str, Any], found: Vector, time_s: float) -> None:
        for gone in [key for key in self._pending if key[0] == name and key[1] not in found]:
            del self._pending[gone]
        held_s = promql.parse_duration(rule["for"]).total_seconds() if "for" in rule else 0.0
        for labels in found:
            since_s = self._pending.setdefault((name, labels), time_s)
            if time_s - since_s >= held_s:
                self.fired.setdefault(name, []).append((time_s, labels))


def growing(time_s: float) -> ApplicationStatus:
    return with_task(lags={SOURCE: 5 + int(time_s) * 10})


def counting(name: str) -> At:
    """A counter that is 0 for a quarter of an hour, and then 1."""
    return lambda time_s: with_task(**{name: int(time_s >= 15 * MINUTE)})


def always(status: ApplicationStatus) -> At:
    return lambda time_s: status


STUCK = StuckTask(TASK, ACTOR, "words", 0, 17, 5, 300.0)
TROUBLE: dict[str, tuple[At, float, float]] = {
    # What happens, when the alert is to fire at the latest, and when it must not yet have fired. In seconds.
    "PenstockFailed": (always(replace(WELL, state=ApplicationState.ERROR)), 0, -1),
    "PenstockMetricsMissing": (lambda s: WELL if s < 20 * MINUTE else None, 23 * MINUTE, 20 * MINUTE),
    "PenstockNotReady": (always(replace(WELL, state=ApplicationState.REBALANCING)), 5 * MINUTE, 4 * MINUTE),
    "PenstockBrokerUnreachable": (always(with_health(no_broker=True)), MINUTE, 30),
    "PenstockPartitionsWithoutLeader": (
        always(with_health(brokers=BrokerLosses(leaderless=(SOURCE,)))), MINUTE, 30
    ),
    "PenstockTopicMissing": (always(replace(WELL, missing_topic="topic 'words' is gone")), 0, -1),
    "PenstockSessionLost": (always(with_health(no_session=True)), MINUTE, 30),
    "PenstockWaitingForCpus": (always(with_health(waiting_for_cpus=2)), 2 * MINUTE, MINUTE),
    "PenstockDiskFails": (always(with_health(unfit_nodes=1)), 0, -1),
    "PenstockPaused": (always(replace(WELL, paused=True)), HOUR, HOUR - MINUTE),
    "PenstockActorSilent": (lambda s: with_health(report_ages_s={ACTOR: s}), 30, 15),
    "PenstockActorFailed": (always(with_actor(error="boom")), MINUTE, 30),
    "PenstockTaskWithoutActor": (always(replace(WELL, unhosted={TaskId(0, 1): "starts"})), 5 * MINUTE, 4 * MINUTE),
    "PenstockTaskStuck": (always(replace(WELL, stuck=(STUCK,))), 0, -1),
    "PenstockLagGrows": (growing, 20 * MINUTE, 10 * MINUTE),
    "PenstockRecordsDropped": (counting("dropped_records"), 15 * MINUTE, 14 * MINUTE),
    "PenstockRecordsLost": (counting("lost_records"), 15 * MINUTE, 14 * MINUTE),
    "PenstockResultsMissing": (always(with_task(measured={PARTED: 1})), 0, -1),
    "PenstockRestoreTakesLong": (always(with_task(restore_remaining=9)), 30 * MINUTE, 29 * MINUTE),
    "PenstockStandbyBehind": (
        always(with_actor(standbys=(StandbyStatus(TaskId(0, 1), 200_000),))), 30 * MINUTE, 29 * MINUTE
    ),
}  # fmt: skip


def test_every_alert_is_played() -> None:
    assert TROUBLE.keys() == RULES.keys()


@pytest.mark.parametrize("name", RULES)
def test_an_alert_fires_in_time_and_not_before(name: str) -> None:
    at, latest_s, not_yet_s = TROUBLE[name]
    fired = Prometheus().watch(at, latest_s).fired
    assert name in fired, f"by {latest_s} s"
    first_s, labels = fired[name][0]
    assert first_s > not_yet_s
    assert ("application_id", APP) in labels


@pytest.mark.parametrize("name", RULES)
def test_an_alert_names_metrics_that_there_are_and_labels_that_it_has(name: str) -> None:
    shown = exposition(WELL).decode()
    rule = RULES[name]
    assert [metric for metric in metrics_of(promql.parse(rule["expr"])) if f"\n{metric}{{" not in shown] == []
    assert rule["labels"]["severity"] in ("warning", "critical")
    at, latest_s, _ = TROUBLE[name]
    labels = dict(Prometheus().watch(at, latest_s).fired[name][0][1])
    named = {label for text in rule["annotations"].values() for label in re.findall(r"\$labels\.(\w+)", text)}
    assert named <= labels.keys()
    assert "application_id" in named


def ordinary_day(time_s: float) -> ApplicationStatus | None:
    """Work, a temporary lag, a deploy with a rebalance and a restore, a short outage, a short pause."""
    minute = time_s / MINUTE
    if 10 <= minute < 11:  # a restart of the coordinator
        return None
    if 20 <= minute < 23:
        return replace(with_task(restore_remaining=9), state=ApplicationState.REBALANCING, unhosted={TASK: "moves"})
    if 40 <= minute < 40.5:
        return with_health(no_broker=True, no_session=True)
    if 50 <= minute < 80:
        return replace(WELL, paused=True)
    if 90 <= minute < 91:
        return with_health(waiting_for_cpus=1, report_ages_s={ACTOR: 5.0})
    if 100 <= minute < 110:  # it catches up
        return with_task(lags={SOURCE: int(100_000 * (110 - minute) / 10)})
    return with_task(lags={SOURCE: int(time_s * 7919 % 900)})


def test_of_an_application_that_is_well_nothing_fires() -> None:
    assert Prometheus().watch(ordinary_day, 2 * HOUR).fired == {}


def test_an_application_that_was_stopped_is_no_alarm() -> None:
    stopped = replace(WELL, state=ApplicationState.NOT_RUNNING, actors=(), placement={}, health=Health())

    def at(time_s: float) -> ApplicationStatus | None:
        if time_s < 20 * MINUTE:
            return WELL
        return stopped if time_s < 21 * MINUTE else None

    assert Prometheus().watch(at, HOUR).fired.keys() <= {"PenstockMetricsMissing"}


def test_through_rays_endpoint_the_same_rules_hold_with_a_prefix() -> None:
    """Each metric is found by its prefix, as the file describes, and nothing else begins with it."""
    rewritten = [re.sub(r"\bkafka_", "ray_kafka_", rule["expr"]) for rule in RULES.values()]
    before = [metrics_of(promql.parse(rule["expr"])) for rule in RULES.values()]
    assert [metrics_of(promql.parse(text)) for text in rewritten] == [
        {f"ray_{metric}" for metric in each} for each in before
    ]


def _scraped(*values: float | None) -> Iterator[Scrapes]:
    scrapes = Scrapes()
    for number, value in enumerate(values):
        if value is None:
            scrapes.fail(number * 15)
        else:
            scrapes.add(number * 15, f'c_total{{app="a"}} {value}\n')
        yield scrapes


@pytest.mark.parametrize(
    ("expression", "values", "found"),
    [
        ("c_total", [1, 2], 2),
        ("c_total", [1, None], None),
        ("increase(c_total[1m])", [1, 5, 2, 3], 7),
        ("delta(c_total[1m])", [1, 5, 2], 1),
        ("c_total offset 15s", [1, 5], 1),
        ('c_total{app="b"}', [1], None),
        ('c_total{app=~"a|b"} > 1', [1], None),
        ("sum by (app) (c_total) >= 1", [1], 1),
        ("c_total and c_total > 1", [2], 2),
        ("c_total unless on (app) c_total", [2], None),
    ],
)
def test_expressions_mean_what_they_mean_to_prometheus(
    expression: str, values: list[float | None], found: float | None
) -> None:
    *_, scrapes = _scraped(*values)
    got = evaluate(promql.parse(expression), scrapes, (len(values) - 1) * 15)
    assert list(got.values()) == ([] if found is None else [found])
