"""``make simulate-coordinator`` counts what it plays, and reports the seeds of what breaks."""

from __future__ import annotations

import pytest

from tests.cluster.simulate import play_for
from tests.cluster.test_exactly_once_simulation import go_on_after_an_abort


@pytest.mark.parametrize("first", [1, 2])
def test_a_schedule_ends_with_all_that_was_promised(first: int) -> None:
    totals, failures = play_for(first, 2, 0)
    assert failures == {}
    assert totals["schedules"] == 1
    assert totals["events"] > 100
    assert totals["simulated s"] > 60


@pytest.mark.parametrize("seed", [329, 819, 1119])
def test_an_actor_is_not_taken_for_one_that_had_its_name_and_asks_on(seed: int) -> None:
    """Found by ``make simulate-coordinator``: its requests counted as superseded, and it had no task any more."""
    assert play_for(seed, 2, 0)[1] == {}


def test_a_seed_that_breaks_a_promise_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on_after_an_abort(monkeypatch)
    _, failures = play_for(1, 2, 0)
    assert "commits" in failures[1]
