"""Two applications that want the same CPUs, on a real Ray and a real Kafka."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.cluster.status import ApplicationState
from tests.cluster.conftest import WordCount
from tests.cluster.settled import until_settled
from tests.waiting import PATIENCE_S, eventually


@pytest.mark.long
def test_an_application_without_a_cpu_names_the_application_that_has_them(word_count: Callable[[], WordCount]) -> None:
    first, second = word_count(), word_count()
    app = first.app(tasks_per_actor=1)  # an actor for each of its four tasks, on four CPUs
    app.start()
    until_settled(app)  # until it has all CPUs
    late = second.app()
    late.start()
    eventually(lambda: late.status().waiting is not None, "the second application says what it waits for")
    waiting = late.status().waiting or ""
    assert f"{first.application_id!r} (4)" in waiting
    assert "tasks.per.actor" in waiting
    assert late.state() is ApplicationState.REBALANCING
    assert app.status().waiting is None
    assert app.close()
    late.wait_until_running(PATIENCE_S)
    eventually(lambda: late.status().waiting is None, "nothing is waited for any more")
    assert late.close()
