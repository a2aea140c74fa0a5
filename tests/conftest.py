"""Fixtures for every test: a real broker, and topics of its own on it."""

from __future__ import annotations

import itertools
import signal
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import NodeManager

from penstock.common import log
from penstock.common.log import logger
from penstock.kafka.local_broker.broker import LocalBroker
from tests.security.broker import secured as secured
from tests.two_processes import piece_of, turn_of


def pytest_configure() -> None:
    """A session that gets SIGTERM (a CI's time limit, ``kill``) ends as by Ctrl-C, so that it stops its broker.

    This holds also in the background of a script, which has its children ignore Ctrl-C.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Each of two processes is interrupted 5 s after the session's signal, and must then stop Ray and its broker.
    NodeManager.EXIT_TIMEOUT = 20
    # No example of Hypothesis fails because the machine is busy.
    settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("untimed")
    # Configures structlog before any test: its capture_logs counts as configuring it too, and would leave it with its
    # default, by which lines go to standard output.
    logger("tests")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: turn_of(item.nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Returns the scheduler that shares tests out between processes, as for ``make test``."""
    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = piece_of
    return scheduler


@pytest.fixture(autouse=True)
def not_an_actor() -> Iterator[None]:
    """Undoes ``identify`` after each test, which makes a process one actor for good."""
    yield
    log._process.clear()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real one-node Kafka, the same for the whole session: use topics and groups of your own."""
    with LocalBroker(tmp_path_factory.mktemp("broker"), port=0) as status:
        yield status.bootstrap_servers


@pytest.fixture
def topic_name() -> Callable[[str], str]:
    """Makes names that no other test uses: ``topic_name("lines")`` -> ``lines-3f2a9c1e-0``."""
    unique = uuid.uuid4().hex[:8]
    numbers = itertools.count()
    return lambda name: f"{name}-{unique}-{next(numbers)}"
