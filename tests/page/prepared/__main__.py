"""Starts a prepared application with Kafka and Ray of its own, and prints the address of its page, until Ctrl-C."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

import ray

from penstock.cluster.ray_cluster.connections import start_cluster
from penstock.kafka.local_broker.broker import LocalBroker
from tests.page.prepared.hot_key import HOT_KEY
from tests.page.prepared.missing_broker import MISSING, MISSING_BROKER
from tests.page.prepared.nodes import stop_node_of
from tests.page.prepared.prepared import Prepared
from tests.page.prepared.slow_operator import SLOW_OPERATOR

PREPARED = {"slow-operator": SLOW_OPERATOR, "missing-broker": MISSING_BROKER, "hot-key": HOT_KEY}
_STOPS_AFTER_S = 20.0


def main() -> None:
    """Run until a signal."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("application", choices=PREPARED)
    prepared = PREPARED[arguments.parse_args().application]
    ended = threading.Event()
    with ExitStack() as stack:
        _run(prepared, stack, ended)


def _run(prepared: Prepared, stack: ExitStack, ended: threading.Event) -> None:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-prepared-")))
    broker = LocalBroker(folder / "kafka", port=0, nodes=prepared.brokers)
    address = stack.enter_context(broker).bootstrap_servers
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[3])  # Ray's workers import the functions from here
    stack.callback(ray.shutdown)
    start_cluster(log_to_driver=False, logging_level=logging.ERROR)
    for each in (signal.SIGINT, signal.SIGTERM):  # after Ray, which sets its own
        signal.signal(each, lambda *_: ended.set())
    app = stack.enter_context(prepared.running(address, folder / "state"))
    print(f"{prepared.name}: {app.status().http_address}", flush=True)
    if prepared is MISSING_BROKER:
        if ended.wait(_STOPS_AFTER_S):
            return
        stop_node_of(broker, MISSING)
    ended.wait()


if __name__ == "__main__":
    main()
