"""Fixtures for every test: a real broker, and topics of its own on it."""

from __future__ import annotations

import gc
import itertools
import os
import random
import signal
import uuid
from collections.abc import Callable, Iterator
from signal import default_int_handler as interrupted
from types import FrameType

import psutil
import pytest
from hypothesis import HealthCheck, settings

from penstock.common import log
from penstock.common.log import logger
from penstock.kafka.local_broker.broker import LocalBroker
from tests import in_memory
from tests.groups import OF_A_SUBMISSION, group_of, turn_of
from tests.security.broker import secured as secured


def pytest_configure(config: pytest.Config) -> None:
    """A session that gets SIGTERM (a CI's time limit, ``kill``) ends as by Ctrl-C, so that it stops its broker.

    This holds also in the background of a script, which has its children ignore Ctrl-C.
    """
    signal.signal(signal.SIGTERM, _interrupt_processes if config.getoption("numprocesses", None) else interrupted)
    signal.signal(signal.SIGINT, interrupted)
    in_memory.keep_files()
    # No example of Hypothesis fails because the machine is busy.
    settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("untimed")
    # Configures structlog before any test: its capture_logs counts as configuring it too, and would leave it with its
    # default, by which lines go to standard output.
    logger("tests")


def _interrupt_processes(number: int, frame: FrameType | None) -> None:
    """Has the processes that run the tests end as by Ctrl-C, while there is time to stop their brokers and Rays."""
    for process in psutil.Process().children():
        process.send_signal(signal.SIGINT)
    interrupted(number, frame)


@pytest.hookimpl(trylast=True)  # the processes of pytest-xdist have ended
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Gives the memory back. After a failure the files are kept until the next run.

    pytest itself would delete the folder of each test that passes, and have the next test use the same path, which may
    be locked still.
    """
    if exitstatus == 0 and not hasattr(session.config, "workerinput"):
        in_memory.delete(session.config._tmp_path_factory.getbasetemp())  # type: ignore[attr-defined]  # private


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    groups = {item: group_of(item.nodeid, getattr(item, "fixturenames", ())) for item in items}
    for item, group in groups.items():
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))
        if group in OF_A_SUBMISSION:
            item.add_marker(pytest.mark.submission)
    items.sort(key=lambda item: turn_of(item.nodeid, groups[item]))


def pytest_collection_finish() -> None:
    """Spares the garbage collector the tests and their parameters, which live to the end: hundreds of megabytes."""
    gc.collect()
    gc.freeze()
    _ENVIRONMENT.update(_environment())


_ENVIRONMENT: dict[str, str] = {}
"""Variables of the process before its first test."""
_CHANGING = "PYTEST_", "RAY_", "PYTHONBREAKPOINT", "SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE"


def _environment() -> dict[str, str]:
    """Returns the variables that are to stay: pytest changes its own, Ray and PySpark set some that they read later."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_CHANGING)}


def set_back() -> set[str]:
    """Gives all variables the values that they had before the first test. Returns the names of those that differed."""
    changed = {name for name, _ in _environment().items() ^ _ENVIRONMENT.items()}
    for name in changed:
        if name in _ENVIRONMENT:
            os.environ[name] = _ENVIRONMENT[name]
        else:
            del os.environ[name]
    return changed


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Has each test draw the same random numbers in each run, if ``make test`` has a ``SEED``, as in CI."""
    seed = item.config.getoption("--hypothesis-seed", None)
    if seed is not None:
        random.seed(f"{seed} {item.nodeid}")


@pytest.fixture(autouse=True)
def not_an_actor() -> Iterator[None]:
    """Undoes ``identify`` after each test, which makes a process one actor for good."""
    yield
    log._process.clear()


@pytest.fixture(autouse=True)
def same_environment() -> Iterator[None]:
    """Fails a test that leaves another environment behind, or whose fixtures do: with it, programs that later tests
    start would behave otherwise in another order of the tests."""
    yield
    assert set_back() == set()


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
