"""A run of the chaos harness checks that undecodable records are counted: that is known only while no task moves."""

from __future__ import annotations

from importlib import import_module
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

MODULE = import_module("penstock.testing.chaos.run")  # the package has a function of that name
POISON = ["not a number", "neither"]


def reported(monkeypatch: pytest.MonkeyPatch, moves_until: int, counted: int) -> list[str]:
    """Returns the violations if a task has another home at each of the first looks, and each attempt drops ``counted``
    records."""
    looks = count()

    def status() -> Any:
        look = next(looks)
        task = SimpleNamespace(task_id="0_0", dropped_records=look * counted)
        actor = SimpleNamespace(pid=min(look, moves_until), tasks=[task])
        return SimpleNamespace(actors=[actor], tasks=[task])

    monkeypatch.setattr(MODULE, "write", lambda clients, records: None)
    monkeypatch.setattr(MODULE, "come_to_rest", lambda rig, timeout_s: None)
    rig, program = (
        SimpleNamespace(app=SimpleNamespace(status=status), clients=None),
        SimpleNamespace(poison=lambda: POISON),
    )
    found: list[str] = MODULE._counts_poison(rig, program, SimpleNamespace(poisoned=0))
    return found


@pytest.mark.parametrize("moves_until", [0, 4])
def test_each_record_that_cannot_be_decoded_is_counted_once(monkeypatch: pytest.MonkeyPatch, moves_until: int) -> None:
    assert reported(monkeypatch, moves_until, counted=2) == []
    assert reported(monkeypatch, moves_until, counted=1) == [
        "2 records could not be decoded, 1 were counted as dropped"
    ]


def test_a_promise_that_could_not_be_checked_is_not_reported_as_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    (violation,) = reported(monkeypatch, moves_until=100, counted=2)
    assert "tasks moved in each of 3 attempts" in violation
