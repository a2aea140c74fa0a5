"""Ray's own autoscaler with its local fake nodes: ``python -m tests.elastic.autoscaler``, about two minutes.

Stream actors that wait make it add nodes; when they are no longer needed, nodes are drained and removed. Each fake
node is a real raylet on this machine. Not among the tests: it is Ray's autoscaler that takes most of the time.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray._private import services
from ray.autoscaler._private.fake_multi_node import node_provider

from penstock.cluster.names import NAMESPACE
from penstock.kafka.local_broker.broker import LocalBroker, free_port
from tests.elastic.cluster import STORE_BYTES, SlowCount, say
from tests.waiting import eventually

HEAD_ID = "fffffffffffffffffffffffffffffffffffffffffffffffffff00000"
IDLE_S = 10
COMMANDS = (
    "initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands",
    "head_start_ray_commands", "worker_start_ray_commands", "cluster_synced_files", "rsync_exclude", "rsync_filter",
)  # fmt: skip
"""Commands of a cluster's configuration. All are empty: there is nothing that could run them."""
RECORD_S = 0.002
RECORDS = 20_000


def config(address: str) -> dict[str, Any]:
    """Returns a configuration like ``deploy/ray-cluster.yaml``: a head without CPUs, and workers that come and go."""
    # Ray's ``fake_multinode`` under another name: by its own the autoscaler wants a file that the wheel does not have.
    provider = {
        "type": "external", "module": f"{node_provider.__name__}.FakeMultiNodeProvider",
        "use_node_id_as_ip": True, "disable_node_updaters": True, "disable_launch_config_check": True,
        "launch_multiple": True, "head_node_id": HEAD_ID, "gcs_address": address,
    }  # fmt: skip
    worker = {"CPU": 2, "object_store_memory": STORE_BYTES}
    return {
        **{key: [] for key in COMMANDS}, "file_mounts": {}, "auth": {}, "docker": {},
        "cluster_name": "fake_multinode", "max_workers": 3, "provider": provider, "upscaling_speed": 8.0,
        "idle_timeout_minutes": IDLE_S / 60, "head_node_type": "ray.head.default",
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
            "worker": {"resources": worker, "node_config": {}, "min_workers": 1, "max_workers": 3},
        },
    }  # fmt: skip


@contextmanager
def autoscaled(folder: Path) -> Iterator[None]:
    """Starts such a cluster, and connects to it."""
    port = free_port()
    address = f"{services.get_node_ip_address()}:{port}"  # type: ignore[no-untyped-call]  # untyped in Ray
    (folder / "cluster.json").write_text(json.dumps(config(address)))
    environment = {
        **os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "RAY_USAGE_STATS_ENABLED": "0",
        "AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_FAKE_CLUSTER": "1", "RAY_enable_autoscaler_v2": "1",
        "RAY_CLOUD_INSTANCE_ID": HEAD_ID, "RAY_OVERRIDE_NODE_ID_FOR_TESTING": HEAD_ID, "RAY_AUTH_MODE": "disabled",
    }  # fmt: skip
    started = subprocess.Popen(
        [
            str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", f"--port={port}", "--num-cpus=0",
            f"--autoscaling-config={folder / 'cluster.json'}", "--include-dashboard=false",
            f"--object-store-memory={STORE_BYTES}", f"--temp-dir={folder / 'ray'}",
            "--min-worker-port=0", "--max-worker-port=0", f"--ray-client-server-port={free_port()}",
        ],
        env=environment, stdout=(folder / "ray.log").open("w"), stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        _connect(address, started, folder / "ray.log")
        yield
    finally:
        ray.shutdown()
        started.terminate()
        started.wait(60)


def _connect(address: str, started: subprocess.Popen[bytes], log: Path) -> None:
    def runs() -> bool:
        assert started.poll() is None, f"Ray has not started: {log.read_text()[-3000:]}"
        return "Ray runtime started" in log.read_text()

    eventually(runs, "Ray")
    ray.init(address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)


def nodes() -> int:
    """Returns the number of workers that are alive."""
    found: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]  # untyped in Ray
    return sum(node["Alive"] and node["NodeID"] != HEAD_ID for node in found)


def main() -> None:
    """The story."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-autoscaler-"))
    print(f"files: {folder}")
    bounds = {"min.stream.actors": 1, "max.stream.actors": 4, "scaling.window.ms": 2000}
    with LocalBroker(folder / "broker", port=0) as broker, autoscaled(folder):
        it = SlowCount(broker.bootstrap_servers, "autoscaled", folder / "state", RECORD_S, **bounds)
        with it.app:
            it.app.wait_until_running(120)
            say(f"{nodes()} worker of 2 CPUs, {len(it.app.status().actors)} stream actors")
            it.send(RECORDS)
            eventually(lambda: nodes() == 2, "a second worker", 120)
            scaling = it.app.status().scaling
            say(f"{scaling.wanted if scaling else 0} stream actors are wanted: Ray has added a worker for them")
            eventually(lambda: len(set(it.app.status().placement.values())) == 4, "tasks on four actors", 120)
            say("tasks on four actors")
            eventually(lambda: it.processed() == RECORDS, "no lag", 120)
            say("caught up")
            eventually(lambda: len(it.app.status().actors) == 1, "one actor", 120)
            say("one stream actor is left")
            eventually(lambda: nodes() == 1, "one worker", 180)
            say(f"Ray has let the other worker go (idle for {IDLE_S} s)")
            it.send(1000)
            eventually(lambda: it.processed() == RECORDS + 1000, "no lag", 120)
            assert it.is_exact()
            say("each record is counted once")


if __name__ == "__main__":
    main()
