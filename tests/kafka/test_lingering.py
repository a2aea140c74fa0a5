"""A producer with records that wait for their turn while the broker has not answered the last request."""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path

import pytest

from penstock.common.topics import NewTopic
from penstock.kafka.binding import binding
from penstock.kafka.clients import ConfluentClients
from penstock.kafka.producer import open_producer
from tests.faults.rig import kafka_behind_a_proxy, lasts, requests_in
from tests.waiting import eventually

PRODUCE = 0
WATCHED_S = 1.0
NOWHERE = "127.0.0.1:1"
MORE_THAN_A_BATCH = 10  # idempotent producers of librdkafka send on while fewer than five records are without an answer


def cpu_of_clients_s() -> float:
    """Returns the CPU time (seconds) that librdkafka's threads in this process have used."""
    ticks = 0
    for task in Path("/proc/self/task").iterdir():
        try:
            name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:  # it has ended
            continue
        if name.startswith("rdk:"):
            ticks += sum(map(int, rest.split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


@pytest.mark.long
@pytest.mark.skipif(binding() is None, reason="the binding is not compiled")
@pytest.mark.parametrize("flushed", [False, True], ids=["left alone", "flushed"])
def test_waiting_for_an_answer_takes_no_time_of_the_processor(flushed: bool, tmp_path: Path) -> None:
    """librdkafka's own ``linger.ms`` makes it poll without a pause, on a core that the broker may need to answer."""
    with kafka_behind_a_proxy(tmp_path) as kafka:
        ConfluentClients(kafka.proxy.address, "g").admin().create_topics([NewTopic("log", 1)])
        with closing(open_producer(kafka.proxy.address, {"linger.ms": 5})) as producer:

            def send() -> None:
                for number in range(MORE_THAN_A_BATCH):
                    producer.send("log", b"k", b"%d" % number, 1, None, 0)

            send()
            assert producer.flush(60)
            held = kafka.proxy.trap(lambda piece: PRODUCE in list(requests_in(piece)), passes=False)
            send()
            eventually(held.is_set, "a request is on its way, and not answered")
            send()
            begin_s, used_s = time.monotonic(), cpu_of_clients_s()
            while (left_s := begin_s + WATCHED_S - time.monotonic()) > 0:
                if flushed:
                    assert not producer.flush(min(left_s, 0.1))
                else:
                    producer.poll()
                    time.sleep(min(left_s, 0.01))
            assert cpu_of_clients_s() - used_s < 0.3 * WATCHED_S
            kafka.proxy.heal()
            eventually(lambda: producer.flush(0.1), "what waited is written")


@pytest.mark.skipif(binding() is None, reason="the binding is not compiled")
def test_a_producer_is_closed_at_once_whatever_it_lingers() -> None:
    """Its thread is about to send waiting records, which no broker takes, for as long as it lingers. A busy machine may
    hold up one producer that closes, but not each."""
    linger_s = 1.0
    assert any(_closing_s(linger_s) < 0.4 * linger_s for _ in range(10))


def _closing_s(linger_s: float) -> float:
    with closing(open_producer(NOWHERE, {"linger.ms": linger_s * 1000})) as producer:
        producer.send("log", b"k", b"v", 1, None, 0)
        lasts(linger_s * 1.2)
        begin_s = time.monotonic()
    return time.monotonic() - begin_s
