"""The measurement of latencies: it counts and reports the right thing; no test asks how fast."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import defaultdict
from contextlib import closing

import pytest

from benchmarks import latency
from benchmarks.deployed import create_topics
from benchmarks.deployment import Deployment, Setting, Victim, source_of
from benchmarks.latency import Bench, Measured, quantiles, strips
from benchmarks.measure import BenchmarkError
from benchmarks.pulse import Heard, Pulse, quantile
from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import BEGINNING
from tests.waiting import PATIENCE_S


@pytest.mark.parametrize(("at", "found"), [(0.0, 0.0), (0.5, 50.0), (0.99, 99.0), (1.0, 99.0)])
def test_a_quantile_is_the_value_that_so_many_are_below(at: float, found: float) -> None:
    assert quantile([float(number) for number in range(100)], at) == found


@pytest.mark.parametrize(
    ("nodes", "standbys", "guarantee", "message"),
    [
        (2, 1, "exactly_once", "guarantee 'exactly_once' is none of at_least_once, exactly_once_v2"),
        (2, 2, "at_least_once", "2 standbys want more than 2 nodes"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_before_topics_are_filled(
    nodes: int, standbys: int, guarantee: str, message: str
) -> None:
    with pytest.raises(BenchmarkError) as refused:
        Setting(4, nodes, standbys, guarantee)
    assert str(refused.value) == message


def test_silence_lasts_from_the_last_result_to_the_first_that_was_sent_after_the_kill() -> None:
    pulse = Pulse.__new__(Pulse)
    pulse.heard = defaultdict(list, {0: [Heard(9.0, 9.5), Heard(9.9, 10.2), Heard(10.1, 12.0), Heard(10.2, 12.5)]})
    assert pulse.silence_s(0, since_s=10.0) == pytest.approx(12.0 - 9.5), "the second was on its way"
    assert pulse.silence_s(0, since_s=12.1) is None, "none has come yet"
    assert pulse.latencies_ms(9.0, 10.15) == pytest.approx([300.0, 500.0, 1900.0])


def test_runs_of_a_side_at_one_pace_make_one_row_and_each_kill_another() -> None:
    runs = [
        Measured("ours", 1000, [1.0, 2.0, 30.0]),
        Measured("ours", 1000, [3.0, 4.0, 50.0], silent_s=0.25, strip=[(5.0, 6.0)] * 10),
        Measured("ours", 9000, [7.0]),
    ]
    _, rows = quantiles(runs)
    assert rows[0] == ["ours", "1,000", "2", "3 (2–4)", "40 (30–50)", "40 (30–50)", "40 (30–50)"]
    assert rows[1][:4] == ["ours", "9,000", "1", "7"]
    _, kills = strips(runs)
    assert kills == [["ours", "1,000", "0.25", *["5/6"] * 10]]


def test_the_sender_writes_into_each_record_the_time_at_which_it_was_due(broker: str) -> None:
    clients = ConfluentClients(broker, "benchmarks")
    clients.admin().create_topics([NewTopic("bench-sent", 2)])
    message = subprocess.run(
        [sys.executable, "-m", "benchmarks.sender", broker, "bench-sent", "2", "5000", "100", "300"],
        stdin=subprocess.PIPE, capture_output=True, text=True, check=True, timeout=PATIENCE_S,
    )  # fmt: skip
    sent, until_s = message.stdout.split()
    assert int(sent) == 300
    consumer = clients.consumer()
    consumer.assign({TopicPartition("bench-sent", number): BEGINNING for number in range(2)})
    values: list[bytes] = []
    while len(values) < 300:
        values += [value for batch in consumer.poll(1000, 1.0) for value in batch.values if value is not None]
    consumer.close()
    due = sorted(float(value[:17]) for value in values)
    assert {len(value) for value in values} == {100}
    assert 0.05 < due[-1] - due[0] <= 0.06, "at 5,000 a second, whoever was late"
    assert due[-1] <= float(until_s)


class Copier(Deployment):
    """Copies the input to its output; for a second after a kill it does not."""

    name, output, recovers_itself = "copier", "bench-copied", True

    def __init__(self, clients: ConfluentClients) -> None:
        self._clients = clients
        self._ending = threading.Event()
        self._away_until_s = 0.0
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    def _copy(self) -> None:
        consumer, producer = self._clients.consumer(), self._clients.producer()
        consumer.assign({TopicPartition(source_of(self.output), number): BEGINNING for number in range(4)})
        while not self._ending.is_set():
            if time.time() < self._away_until_s:
                time.sleep(0.01)
                continue
            for batch in consumer.poll(1000, 0.05):
                for key, value in zip(batch.keys, batch.values, strict=True):
                    producer.send(self.output, key, value, 1, None, batch.partition.partition)
            producer.poll()
        consumer.close()
        producer.close()

    def until_at_rest(self, but: str = "") -> None:
        """Returns at once."""

    def busiest(self) -> Victim:
        return Victim("copier", 0, (0, 1, 2, 3))

    def kill(self, victim: Victim) -> None:
        self._away_until_s = time.time() + 1.0

    def recover(self) -> None:
        """Does nothing: it is back by itself."""

    def close(self) -> None:
        self._ending.set()
        self._thread.join()


@pytest.mark.long
def test_capacity_latencies_and_the_silence_after_a_kill_are_measured(
    broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latency, "_WARM_S", 0.5)
    monkeypatch.setattr(latency, "_STRIP_S", range(-1, 3))
    bench = Bench(broker, "at_least_once")
    create_topics(bench.clients, Copier.output, 4)
    with closing(Copier(bench.clients)) as copier:
        assert bench.capacity(copier, 20_000) > 1000
        calm = bench.steady(copier, 500, 1.0, kill=False)
        assert len(calm.latencies_ms) == pytest.approx(500, abs=5)
        assert not calm.strip
        killed = bench.steady(copier, 500, 1.0, kill=True)
    assert 0.9 < killed.silent_s < 10
    assert len(killed.strip) == 4
    assert killed.strip[1][1] > 900, "who was due just after the kill waited for its end"
