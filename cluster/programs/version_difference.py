"""The difference of two versions of a program, for the page. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.actors.spec import ApplicationSpec
from penstock.cluster.program_view import ChangeView, DifferenceView
from penstock.cluster.programs.deploy_plan import DeployPlan, plan_deploy, tasks_of
from penstock.cluster.programs.description import description_of
from penstock.cluster.programs.topology_difference import changed_lines

_MOST_LINES = 200


Version = tuple[int, ApplicationSpec]
"""The number of a version, and its program."""


def version_difference(old: Version, new: Version) -> DifferenceView:
    """Returns the difference of two versions."""
    (before, was), (after, now) = old, new
    plan = plan_deploy(description_of(was.topology, was.config), description_of(now.topology, now.config))
    lines = changed_lines(was.topology.describe(), now.topology.describe())
    return DifferenceView(before, after, tuple(_changes(plan)), tuple(lines[:_MOST_LINES]))


def _changes(plan: DeployPlan) -> Iterator[ChangeView]:
    for task in plan.tasks:
        was, now = tasks_of(task.was), tasks_of(task.now)
        yield ChangeView("tasks", task.fate.value, was if task.now is None else now, was, now, note=task.note)
    for store in plan.stores:
        was, now = tasks_of(store.was), tasks_of(store.now)
        yield ChangeView("store", store.fate.value, store.name, was, now, note=store.note)
    for topic in plan.topics:
        yield ChangeView("topic", topic.fate.value, topic.name, use=topic.use, note=topic.note)
