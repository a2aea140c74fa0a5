"""``penstock dlq`` on a real broker: a replay that is killed, and one that is interrupted, write each record once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.cluster.dead_letters.letters import Letter
from penstock.cluster.dead_letters.reading import all_letters
from penstock.common.dead_letters import Replayed, read_replayed
from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from tests.cluster.dead_letters.making import error_headers
from tests.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.submission
_LETTERS = 200
_REPLAY = [sys.executable, "-m", "penstock.cli.main", "dlq", "replay"]


@pytest.fixture
def clients(broker: str) -> ConfluentClients:
    return ConfluentClients(broker, "test", {"isolation.level": "read_committed"})


def _fill(clients: ConfluentClients, dlq: str, source: str) -> None:
    clients.admin().create_topics([NewTopic(dlq, 2), NewTopic(source, 4)])
    with closing(clients.producer()) as producer:
        for number in range(_LETTERS):
            headers = [("number", b"%d" % number), *error_headers(source, number % 4, number)]
            key = None if number % 5 == 0 else b"key %d" % number
            producer.send(dlq, key, b"%d" % number, 1_795_253_400_000 + number, headers, number % 2)
        assert producer.flush(PATIENCE_S)


def _is_begun(clients: ConfluentClients, source: str) -> bool:
    partitions = [TopicPartition(source, number) for number in range(4)]
    return any(clients.admin().end_offsets(partitions).values())


def _records(clients: ConfluentClients, source: str) -> list[Letter]:
    return list(all_letters(clients, source).read("", lambda _: None))


def test_each_letter_is_replayed_once_although_replays_are_killed_and_interrupted(
    broker: str, clients: ConfluentClients, topic_name: Callable[[str], str]
) -> None:
    dlq, source = topic_name("dlq"), topic_name("source")
    _fill(clients, dlq, source)
    env = {**os.environ, "PENSTOCK_BOOTSTRAP_SERVERS": broker}
    slow = [*_REPLAY, dlq, "--yes", "--rate", "2"]  # none comes to its end, however late this process is
    with subprocess.Popen(slow, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as killed:
        eventually(lambda: _is_begun(clients, source), "the replay commits its first records")
        killed.kill()
    with subprocess.Popen([*slow, "--limit", "100"], env=env, stderr=subprocess.PIPE, text=True) as interrupted:
        assert interrupted.stderr is not None
        while "replaying" not in interrupted.stderr.readline():
            assert interrupted.poll() is None
        interrupted.send_signal(signal.SIGINT)
        err = interrupted.communicate(timeout=PATIENCE_S)[1]
    assert interrupted.returncode == 130
    assert "written before it" in err

    rest = CliRunner(env={"PENSTOCK_BOOTSTRAP_SERVERS": broker}).invoke(app, ["dlq", "replay", dlq, "--yes", "--json"])
    body = json.loads(rest.stdout)
    assert 0 < body["written"] < _LETTERS
    assert body["left"] == {"were replayed before": _LETTERS - body["written"]}
    # A broker writes the markers of a transaction just after it has answered.
    eventually(lambda: len(_records(clients, source)) >= _LETTERS, "readers of committed records see all")
    eventually(lambda: _replayed(broker, dlq) == _LETTERS, "list knows that all are replayed")
    records = _records(clients, source)
    assert sorted(int(each.value or b"") for each in records) == list(range(_LETTERS))
    for each in records:
        number = int(each.value or b"")
        assert each.key == (None if number % 5 == 0 else b"key %d" % number)
        assert each.timestamp == 1_795_253_400_000 + number
        assert each.partition == number % 4
        assert [name for name, _ in each.headers] == ["number", "__penstock.replayed"]
        assert read_replayed(each.headers) == Replayed(dlq, number % 2, number // 2, 1)


def _replayed(broker: str, dlq: str) -> int:
    listed = CliRunner(env={"PENSTOCK_BOOTSTRAP_SERVERS": broker}).invoke(app, ["dlq", "list", dlq, "--json"])
    replayed: int = json.loads(listed.stdout)["causes"][0]["replayed"]
    return replayed
