"""The time for which an actor waits for the coordinator. The clock is virtual; the coordinator is the test's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayTaskError
from structlog.testing import capture_logs

from penstock.actors.commit_messages import CommitAnswer, CommitRequest
from penstock.actors.commits.commit_calls import GONE_S, CommitCalls
from penstock.common.errors import ApplicationStateError
from penstock.common.log import logger
from tests.cluster.virtual_time import run

REQUEST = CommitRequest("stream/1", 1, {}, 1)
DAY_S = 86_400.0


def committed(away_s: float, error: Callable[[], BaseException | None]) -> CommitAnswer:
    """The answer of a coordinator that is away for ``away_s``. Meanwhile each call takes a second, and
    raises ``error``; None: it has no answer."""

    async def story() -> CommitAnswer:
        async def call(request: CommitRequest) -> CommitAnswer | None:
            assert request is REQUEST
            await asyncio.sleep(1.0)
            if asyncio.get_running_loop().time() >= away_s:
                return CommitAnswer(True)
            if (problem := error()) is not None:
                raise problem
            return None

        return await CommitCalls("stream/1", call, logger(__name__)).commit(REQUEST)

    return run(story())


def unavailable() -> BaseException:
    return ActorUnavailableError("the coordinator is restarted", None)


@pytest.mark.parametrize("error", [unavailable, lambda: None, TimeoutError])
def test_a_coordinator_that_is_away_for_any_time_ends_no_actor(error: Callable[[], BaseException | None]) -> None:
    with capture_logs() as lines:
        assert committed(DAY_S, error).accepted
    assert len(lines) <= 1


def test_a_coordinator_that_is_dead_for_good_ends_the_actor() -> None:
    assert committed(GONE_S - 2, ActorDiedError).accepted
    with pytest.raises(ApplicationStateError, match="Ray reports the coordinator dead for 300 s"):
        committed(DAY_S, ActorDiedError)


def test_a_coordinator_that_is_unavailable_in_between_is_not_dead() -> None:
    errors = iter(range(1_000_000))
    assert committed(DAY_S, lambda: unavailable() if next(errors) % 200 == 0 else ActorDiedError()).accepted


def test_an_error_of_the_coordinator_itself_is_the_actors_at_once() -> None:
    problem = RayTaskError("commit", "", ValueError("bad"))  # type: ignore[no-untyped-call]  # untyped in Ray
    with pytest.raises(RayTaskError):
        committed(DAY_S, lambda: problem)
