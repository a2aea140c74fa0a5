"""penstock's side of ``deployment.py``: a Ray of as many nodes, each with one stream actor."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster
from typing_extensions import override

import penstock as ps
from benchmarks.deployment import (
    CAUGHT_UP_LAG,
    COMMIT_INTERVAL_MS,
    PATIENCE_S,
    Deployment,
    Setting,
    Victim,
    source_of,
)
from benchmarks.measure import BenchmarkError
from benchmarks.penstock_side import ENVIRONMENT, NAME
from penstock.cluster.client.deploying import begin_rollout, running_version
from penstock.cluster.names import NAMESPACE
from penstock.cluster.read_side import ApplicationState, ApplicationStatus
from penstock.testing.chaos.rays_lines import leave_out_rays_lines


def topology(output: str) -> ps.Topology:
    """The last value of each key. As in ``java/Instance.java``."""
    builder = ps.StreamsBuilder()
    serdes = ps.Serdes.string(), ps.Serdes.bytes()
    (
        builder.stream(source_of(output), ps.Consumed.with_(*serdes))
        .group_by_key()
        .reduce(lambda _, last: last, ps.Materialized.as_("last").with_caching_disabled())
        .to_stream()
        .to(output, ps.Produced.with_(*serdes))
    )
    return builder.build()


class PenstockDeployment(Deployment):
    """penstock on a Ray of several nodes, which replaces actors by itself. ``lost_disk``: the state that a killed
    actor leaves there is removed; None where it stays."""

    name = NAME
    recovers_itself = True

    def __init__(self, app: ps.KafkaStreams, output: str, setting: Setting, lost_disk: Path | None) -> None:
        self.output = output
        self._app, self._setting, self._lost_disk = app, setting, lost_disk

    @override
    def until_at_rest(self, but: str = "") -> None:
        self._until(lambda status: self._is_at_rest(status, but))

    def _is_at_rest(self, status: ApplicationStatus, but: str) -> bool:
        if status.state is not ApplicationState.RUNNING or any(actor.actor_id == but for actor in status.actors):
            return False
        setting, lag = self._setting, CAUGHT_UP_LAG
        standbys = [standby for actor in status.actors for standby in actor.standbys]
        caught_up = len(standbys) == setting.tasks * setting.standbys and all(it.lag < lag for it in standbys)
        balanced = len(status.actors) == setting.nodes and all(actor.tasks for actor in status.actors)
        done = len(status.tasks) == setting.tasks and all(task.lags and task.lag < lag for task in status.tasks)
        return caught_up and balanced and done

    def _until(self, condition: Callable[[ApplicationStatus], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            status = self._app.status()
            if status is not None and condition(status):
                return
            time.sleep(0.05)
        raise BenchmarkError(f"{self.name} is not at rest within {PATIENCE_S:.0f} s: {self._app.status()}")

    @override
    def busiest(self) -> Victim:
        status = self._app.status()
        assert status is not None
        actor = max(status.actors, key=lambda actor: (len(actor.tasks), actor.actor_id))
        return Victim(actor.actor_id, actor.pid, tuple(sorted(task.task_id.partition for task in actor.tasks)))

    @override
    def kill(self, victim: Victim) -> None:
        os.kill(victim.pid, signal.SIGKILL)
        if self._lost_disk is not None:
            for partition in victim.partitions:
                shutil.rmtree(self._lost_disk / f"0_{partition}", ignore_errors=True)

    @override
    def recover(self) -> None:
        """The coordinator does."""

    def roll_out(self) -> None:
        """Deploy the program again, as another version; returns when all tasks run it and the old actors are gone."""
        again = ps.KafkaStreams(topology(self.output), self._app.config.entries())
        generation = begin_rollout(running_version(self._app.application_id), again, watch_s=0.0)
        self._until(lambda status: status.rollout.generation == generation and status.rollout.phase.is_over)


@contextmanager
def penstock_deployment(
    work: Path, address: str, setting: Setting, output: str, lose_disk: bool = False, cpus: int = 1
) -> Iterator[PenstockDeployment]:
    """penstock with a stream actor on each node, which has ``cpus`` CPUs; all ends with the block."""
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])
    os.environ.update(ENVIRONMENT)
    settings: dict[str, Any] = {"num_cpus": cpus, "object_store_memory": 100_000_000, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=settings)
    application_id, state = f"{output}-penstock", work / "penstock-state"
    try:
        for _ in range(setting.nodes - 1):
            cluster.add_node(**settings)
        leave_out_rays_lines()
        ray.init(cluster.address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
        app = ps.KafkaStreams(
            topology(output),
            {
                "application.id": application_id,
                "bootstrap.servers": address,
                "state.dir": state,
                "application.server": "",
                "processing.guarantee": setting.guarantee,
                "commit.interval.ms": COMMIT_INTERVAL_MS,
                "num.standby.replicas": setting.standbys,
                "tasks.per.actor": -(-setting.tasks // setting.nodes),
            },
        )
        app.start()
        try:
            app.wait_until_running()
            yield PenstockDeployment(app, output, setting, state / application_id if lose_disk else None)
        finally:
            app.close(60)
    finally:
        ray.shutdown()
        cluster.shutdown()  # type: ignore[no-untyped-call]  # untyped in Ray
