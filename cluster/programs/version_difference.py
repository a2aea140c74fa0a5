"""The difference of two versions of a program, for the page. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.actors.spec import ApplicationSpec
from penstock.cluster.program_view import ChangeView, DifferenceView
from penstock.cluster.programs.deploy_plan import DeployPlan, Fate, plan_deploy, tasks_of
from penstock.cluster.programs.description import description_of
from penstock.cluster.programs.topology_difference import changed_lines

_MOST_LINES = 200
_COST = {fate.value: cost for cost, fate in enumerate(Fate)}


Version = tuple[int, ApplicationSpec]
"""The number of a version, and its program."""


def version_difference(old: Version, new: Version) -> DifferenceView:
    """Returns the difference of two versions."""
    (before, was), (after, now) = old, new
    plan = plan_deploy(description_of(was.topology, was.config), description_of(now.topology, now.config))
    lines = changed_lines(was.topology.describe(), now.topology.describe())
    changes = sorted(_changes(plan), key=lambda change: _COST[change.fate], reverse=True)
    return DifferenceView(before, after, tuple(changes), tuple(lines[:_MOST_LINES]), len(lines))


def _changes(plan: DeployPlan) -> Iterator[ChangeView]:
    for task in plan.tasks:
        was, now = tasks_of(task.was), tasks_of(task.now)
        yield _change("tasks", task.fate, was if task.now is None else now, was, now, note=task.note)
    for store in plan.stores:
        was, now = tasks_of(store.was), tasks_of(store.now)
        yield _change("store", store.fate, store.name, was, now, note=store.note)
    for topic in plan.topics:
        yield _change("topic", topic.fate, topic.name, use=topic.use, note=topic.note)


def _change(
    kind: str, fate: Fate, name: str, was: str = "", now: str = "", *, use: str = "", note: str = ""
) -> ChangeView:
    return ChangeView(kind, fate.value, fate.is_loss, name, was, now, use, note)
