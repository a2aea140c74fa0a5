"""What is measured of latencies: that it counts and says the right thing, never how fast."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict

import pytest

from benchmarks.latency import Measured, quantiles, strips
from benchmarks.pulse import Heard, Pulse, quantile
from penstock.common.ids import TopicPartition
from penstock.common.topics import NewTopic
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.contracts import BEGINNING


@pytest.mark.parametrize(("at", "found"), [(0.0, 0.0), (0.5, 50.0), (0.99, 99.0), (1.0, 99.0)])
def test_a_quantile_is_the_value_that_so_many_are_below(at: float, found: float) -> None:
    assert quantile([float(number) for number in range(100)], at) == found


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


def test_the_sender_says_in_each_record_when_it_was_due(broker: str) -> None:
    clients = ConfluentClients(broker, "benchmarks")
    clients.admin().create_topics([NewTopic("sent", 2)])
    said = subprocess.run(
        [sys.executable, "-m", "benchmarks.sender", broker, "sent", "2", "5000", "100", "300"],
        stdin=subprocess.PIPE, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    sent, until_s = said.stdout.split()
    assert int(sent) == 300
    consumer = clients.consumer()
    consumer.assign({TopicPartition("sent", number): BEGINNING for number in range(2)})
    values: list[bytes] = []
    while len(values) < 300:
        values += [value for batch in consumer.poll(1000, 1.0) for value in batch.values if value is not None]
    consumer.close()
    due = sorted(float(value[:17]) for value in values)
    assert {len(value) for value in values} == {100}
    assert 0.05 < due[-1] - due[0] <= 0.06, "at 5,000 a second, whoever was late"
    assert due[-1] <= float(until_s)
