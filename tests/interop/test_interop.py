"""docs/INTEROP.md on a live broker: applications of Kafka Streams in Java that penstock continues, and the reverse.

Each line of the page is one parameter. Its cases are played with those of all other lines, as one application, once for
each direction and guarantee, and compared with a run of Java alone: an uninterrupted one, and for the lines that wait
for the wall clock one that restarts at the same records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest

from tests.interop.java_application import JavaApplication
from tests.interop.lines import LINES, PACED_LINES, bunch_of, cases_of
from tests.interop.rig import JAVA, PENSTOCK, Played, Shared, differing, play

DIRECTIONS = {"java-penstock-java": (JAVA, PENSTOCK, JAVA), "penstock-java-penstock": (PENSTOCK, JAVA, PENSTOCK)}
GUARANTEES = ("exactly_once_v2", "at_least_once")
_SETS = {False: LINES, True: PACED_LINES}
Runs = Callable[[bool, str, str], dict[str, list[str]]]


def _each_line_in_each_run() -> Iterator[object]:
    """Yields parameters. One run is part of each submission."""
    for paced, lines in _SETS.items():
        for direction in DIRECTIONS:
            for guarantee in GUARANTEES:
                first = not paced and direction == "java-penstock-java" and guarantee == "exactly_once_v2"
                for line in lines:
                    mark = pytest.mark.submission if first else pytest.mark.long
                    yield pytest.param(paced, direction, guarantee, line, marks=mark)


@pytest.fixture(scope="session")
def runs(broker: str, tmp_path_factory: pytest.TempPathFactory, ray_cluster: None, java: JavaApplication) -> Runs:
    """Returns the differences of each line from a run of Java alone; each run is played when it is first needed."""

    def run(paced: bool, name: str, hosts: tuple[str, ...], guarantee: str) -> tuple[Played, set[str]]:
        cases = [case for of_line in cases_of(_SETS[paced]).values() for case in of_line]
        short = f"{name}{guarantee[0]}{int(paced)}"
        shared = Shared(bunch_of(f"io{short}_", cases), broker, f"interop-{short}", java, guarantee)
        try:
            for seconds in play(shared, hosts, tmp_path_factory.mktemp(short)):
                print(f"{' -> '.join(hosts)}, {guarantee}: a hand-over took {seconds:.1f} s")
            return Played.of(shared), {text.replace(shared.bunch.name, "") for text in shared.descriptions}
        finally:
            shared.close()

    @cache
    def alone(paced: bool, guarantee: str) -> tuple[Played, set[str]]:
        # A join that waits for the wall clock emits later after a restart, also in Kafka Streams: so it restarts, too.
        return run(paced, "alone", (JAVA, JAVA, JAVA) if paced else (JAVA,), guarantee)

    begun: set[tuple[bool, str, str]] = set()

    @cache
    def differences_of(paced: bool, direction: str, guarantee: str) -> dict[str, list[str]]:
        key = paced, direction, guarantee
        assert key not in begun, "this run has failed in the test of another line"
        begun.add(key)
        expected, description = alone(paced, guarantee)
        played, descriptions = run(paced, f"turn{direction[0]}", DIRECTIONS[direction], guarantee)
        assert descriptions == description, "both describe the topology by the same text"
        found = iter(differing(expected, played))
        return {line: [each for _ in cases for each in next(found)] for line, cases in cases_of(_SETS[paced]).items()}

    return differences_of


@pytest.mark.parametrize(("paced", "direction", "guarantee", "line"), list(_each_line_in_each_run()))
def test_one_continues_what_the_other_has_begun(
    paced: bool, direction: str, guarantee: str, line: str, runs: Runs
) -> None:
    assert runs(paced, direction, guarantee)[line] == []


def test_each_line_has_cases_of_its_own() -> None:
    lines = {**cases_of(LINES), **cases_of(PACED_LINES)}
    assert all(lines.values())
    names = [case["name"] for cases in lines.values() for case in cases]
    assert len(set(names)) == len(names)
