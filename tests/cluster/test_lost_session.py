"""An application whose broker is away for longer than its session in the consumer group lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from penstock.cluster.client.kafka_streams import KafkaStreams
from penstock.cluster.read_side import ApplicationState
from penstock.kafka.local_broker.broker import LocalBroker
from tests.cluster.conftest import WordCount
from tests.waiting import PATIENCE_S, eventually

LINES = ["the quick brown fox", "jumps over the lazy dog", "the end"] * 20


class Frozen:
    """A broker of this test's own, which SIGSTOP takes away silently: its connections stay."""

    def __init__(self, broker: LocalBroker) -> None:
        status = broker.status()
        (node,) = status.nodes
        assert node.pid is not None
        self.address, self._process = status.bootstrap_servers, psutil.Process(node.pid)

    def freeze(self) -> None:
        self._process.suspend()

    def thaw(self) -> None:
        self._process.resume()


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Frozen]:
    broker = LocalBroker(tmp_path / "broker", port=0)
    with broker:
        frozen = Frozen(broker)
        try:
            yield frozen
        finally:
            frozen.thaw()  # otherwise it could not be stopped cleanly


@pytest.fixture
def application(
    own_broker: Frozen, topic_name: Callable[[str], str], tmp_path: Path, ray_cluster: None
) -> Iterator[tuple[WordCount, KafkaStreams]]:
    it = WordCount(own_broker.address, topic_name("wc"), tmp_path)
    # The shortest session that a broker allows. One actor: once it runs, nothing moves by itself.
    app = it.app(tasks_per_actor=4, consumer_session_timeout_ms=6_000)
    yield it, app
    own_broker.thaw()  # what has not been committed can be now
    app.close()


# A row of the fault matrix: `make faults`.
@pytest.mark.faults
def test_it_is_not_ready_and_reports_why_and_continues_when_the_broker_is_back(
    own_broker: Frozen, application: tuple[WordCount, KafkaStreams]
) -> None:
    it, app = application
    reported: list[ApplicationState] = []
    app.set_state_listener(lambda new, _: reported.append(new))
    app.start()
    app.wait_until_running(PATIENCE_S)
    it.send(LINES)
    eventually(it.complete, "all counts written")
    eventually(lambda: all_committed(it), "all of it committed, so that nothing is counted twice")
    address = app.status().http_address
    assert address is not None

    pids = {actor.pid for actor in app.status().actors}
    own_broker.freeze()
    with httpx.Client(base_url=address, timeout=PATIENCE_S) as client:
        eventually(lambda: client.get("/readyz").status_code == 503, "not ready", timeout_s=40)
        eventually(lambda: "no broker answers" in client.get("/readyz").json()["detail"], "the cause", timeout_s=20)
        problem = client.get("/readyz").json()
        assert problem["state"] == "REBALANCING"
        assert own_broker.address in problem["detail"]
        assert "session in the consumer group is lost" in problem["detail"]
        assert app.status().waiting == problem["detail"].partition("REBALANCING: ")[2]

        own_broker.thaw()
        eventually(lambda: client.get("/readyz").status_code == 200, "ready again", timeout_s=60)
    it.send(LINES)
    eventually(it.complete, "what came later is counted as well, and what came before only once")
    eventually(lambda: app.status().waiting is None, "nothing to wait for")
    assert {actor.pid for actor in app.status().actors} == pids, "its actors were kept"
    running, rebalancing = ApplicationState.RUNNING, ApplicationState.REBALANCING
    eventually(lambda: reported[-3:] == [running, rebalancing, running], "all that its listener hears", timeout_s=10)


def all_committed(it: WordCount) -> bool:
    """Returns True if all lines, and all words behind the repartition, are committed."""
    committed = {tp: offset.offset for tp, offset in it.admin.committed(it.application_id).items()}
    return len(committed) == 4 and committed == it.admin.end_offsets(committed)
