"""The members of Kafka Streams in Java and of penstock in one consumer group: who waits for whom, and for how long."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.cluster.settled import until_settled
from tests.interop.java_application import JavaApplication
from tests.interop.lines import LINES, bunch_of, cases_of
from tests.interop.rig import JAVA, PENSTOCK, Shared, parts
from tests.java import JavaError
from tests.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("ray_cluster"), pytest.mark.xdist_group("ray")]


@pytest.fixture
def shared(broker: str, topic_name: Callable[[str], str], java: JavaApplication) -> Iterator[Shared]:
    """An application of aggregates that has nothing to read yet."""
    name = topic_name("turns")
    cases = cases_of({"aggregates": LINES["aggregates"]})["aggregates"]
    with closing(Shared(bunch_of(f"{name}_", cases), broker, name, java, "exactly_once_v2")) as it:
        yield it


@contextmanager
def timed(what: str) -> Iterator[None]:
    begun = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - begun:.1f} s")


def process_some(shared: Shared) -> None:
    """Has the host that runs it process the first records."""
    _, (rounds, *_) = parts(shared.bunch)
    shared.send(record for records in rounds for record in records)
    shared.settle()


def test_penstock_names_the_members_of_a_stopped_java_application_and_waits(shared: Shared, tmp_path: Path) -> None:
    shared.session_ms = 60_000  # Java's members are still there when penstock looks, however late that is
    shared.start_in(JAVA, tmp_path)
    process_some(shared)
    shared.end(leave=False)
    with timed("Java, which stays in its group -> penstock"):
        shared.start(tmp_path / "next", wait=False)
        assert shared.app is not None
        app = shared.app
        member = rf"{shared.application_id}-[0-9a-f-]+-StreamThread-1-consumer"
        named = rf"{member}-[0-9a-f-]+ \(client id {member}, host 127\.0\.0\.1\)"
        waiting: set[str] = set()

        def names_it() -> bool:
            waiting.add(str(app.status().waiting))
            return any(re.search(named, each) for each in waiting)

        eventually(names_it, "it waits for the member")
        until = r"until \d\d:\d\d:\d\d UTC at the latest if that application has been stopped"
        assert all(re.search(until, each) for each in waiting if re.search(named, each)), waiting
        status = until_settled(app)
    assert status.waiting is None
    process_some(shared)


def test_java_fails_while_penstocks_static_member_stays_and_starts_when_it_has_left(
    shared: Shared, tmp_path: Path
) -> None:
    shared.session_ms = 300_000  # nobody waits for its end
    shared.start_in(PENSTOCK, tmp_path)
    process_some(shared)
    shared.end(leave=False)
    with pytest.raises(JavaError, match="InconsistentGroupProtocolException"):
        shared.start_in(JAVA, tmp_path)
    shared.end()
    shared.start_in(PENSTOCK, tmp_path)
    with timed("penstock, which leaves its group -> Java"):
        shared.end(leave=True)
        shared.start_in(JAVA, tmp_path)
    process_some(shared)


def test_an_application_of_the_streams_protocol_is_handed_over_and_back(shared: Shared, tmp_path: Path) -> None:
    shared.protocol = "streams"
    shared.start_in(JAVA, tmp_path)
    process_some(shared)
    with timed("Java by group.protocol=streams -> penstock"):
        shared.end()
        shared.start_in(PENSTOCK, tmp_path)
    process_some(shared)
    with timed("penstock -> Java by group.protocol=streams"):
        shared.end()
        shared.start_in(JAVA, tmp_path)
    process_some(shared)
