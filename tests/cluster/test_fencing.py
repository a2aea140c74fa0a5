"""The fencing of an actor by the dispatcher, which takes its transactional id. No Ray, no Kafka; virtual time."""

from __future__ import annotations

import asyncio

import pytest

from penstock.cluster.coordinator_shell.dispatch import FENCE_AGAIN_S
from penstock.cluster.status import ApplicationState
from penstock.common.errors import BrokerUnreachableError, ConfigError, KafkaRefusedError, StreamsError
from tests.cluster.test_scaling_watch import Application, Environment
from tests.cluster.virtual_time import run


class Refusing(Environment):
    def __init__(self, error: StreamsError, times: int) -> None:
        self.error, self.times, self.asked = error, times, 0

    async def fence(self, slot: int) -> None:
        self.asked += 1
        if self.asked <= self.times:
            raise self.error


def fenced(environment: Refusing) -> Application:
    async def story() -> Application:
        app = Application()
        app.dispatcher._environment = environment
        await app.begin(2)
        await asyncio.wait_for(app.dispatcher._fence("stream/1", 1), 100 * FENCE_AGAIN_S)
        return app

    return run(story())


@pytest.mark.parametrize("error", [KafkaRefusedError("not allowed"), ConfigError("no such file")])
def test_a_final_refusal_ends_the_application_instead_of_being_retried_for_ever(error: StreamsError) -> None:
    environment = Refusing(error, 1000)
    app = fenced(environment)
    assert environment.asked == 1
    assert app.machine.state is ApplicationState.ERROR
    assert app.machine.error == f"{type(error).__name__}: {error}"


def test_a_temporary_error_is_retried() -> None:
    environment = Refusing(BrokerUnreachableError("nobody answers"), 7)
    app = fenced(environment)
    assert environment.asked == 8
    assert app.machine.state is ApplicationState.RUNNING
