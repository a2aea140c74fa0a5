"""Kafka Streams' own system tests, while penstock runs their programs and is killed. ``make system-test`` plays them
for longer."""

from __future__ import annotations

from pathlib import Path
from random import randrange

import pytest

from tests.system.run import LONG, PLAYS, RELATIONAL, SHORT, SMOKE, Driver, Program, Size, system_test

LARGE = [pytest.param(*play, LONG, marks=pytest.mark.long) for play in PLAYS]


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    return Driver(tmp_path_factory.mktemp("driver"))


@pytest.mark.submission
@pytest.mark.parametrize("program", [SMOKE, RELATIONAL], ids=["smoke", "relational"])
def test_the_programs_are_those_of_kafka_streams(program: Program, driver: Driver) -> None:
    assert program.topology().describe() == driver.describe(program)


@pytest.mark.submission
@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize(
    ("program", "guarantee", "size"),
    [(SMOKE, "exactly_once_v2", SHORT), (RELATIONAL, "exactly_once_v2", SHORT), *LARGE],
    ids=lambda value: value.name if isinstance(value, Program) else value if isinstance(value, str) else None,
)
def test_kafka_streams_verifies_what_penstock_makes_of_its_input_while_it_is_killed(
    program: Program, guarantee: str, size: Size, broker: str, tmp_path: Path, driver: Driver
) -> None:
    assert system_test(driver, program, broker, guarantee, size, tmp_path, randrange(2**32)) == "PASSED"
