"""Rows 4, 7, 8, 18, 31 and 33: faults of Ray, its nodes, its calls and its drivers."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.cluster.conftest import WordCount
from tests.cluster.test_command_line import penstock, write_program
from tests.cluster.test_ray_job import Head
from tests.faults.planted import CrashesAfterSaving, Planted
from tests.faults.ray_cluster import ROOT, ray_cluster
from tests.faults.rig import Counting, Kafka, called, coordinator, eventually, has_ended, lasts

MakeCounting = Callable[..., Counting]
SOON_DEAD = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "4",
}


@pytest.fixture
def it(kafka: Kafka, topic_name: Callable[[str], str], tmp_path: Path) -> Counting:
    """An application that a driver of its own starts."""
    return Counting(kafka, topic_name("row"), tmp_path / "state")


def test_row_4_the_coordinator_dies_between_writing_down_what_is_wanted_and_doing_it(
    counting: MakeCounting, tmp_path_factory: pytest.TempPathFactory
) -> None:
    armed = tmp_path_factory.mktemp("armed")
    it = counting(Planted(CrashesAfterSaving(armed)))
    first = coordinator().pid
    with it.fed():
        (armed / "one").touch()
        it.app.add_stream_actor()
        assert not any(armed.iterdir()), "it did not die"
        assert coordinator().pid != first
        eventually(lambda: len(it.actors()) == 3, "one more, once")
        it.assert_continues()
    it.all_is_counted_once()
    assert len(it.actors()) == 3


def test_row_7_the_head_of_ray_is_killed_and_comes_back_with_what_it_had_stored(it: Counting, tmp_path: Path) -> None:
    stored = {"RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": str(tmp_path / "gcs")}
    with ray_cluster([1, 1], **stored) as ray:
        driver = ray.start(it, tmp_path)
        before = {each.pid for each in ray.processes("ray::StreamActor")}
        with it.fed():
            ray.cluster.head_node.kill_gcs_server()
            it.assert_continues(200)
            ray.cluster.head_node.start_gcs_server()
            it.assert_continues(200)
            eventually(lambda: driver.ask("status").get("state") == "RUNNING", "its status can be asked again", 60)
        it.all_is_counted_once()
        assert {each.pid for each in ray.processes("ray::StreamActor")} == before, "actors were replaced"
        assert len(ray.processes("ray::CoordinatorActor")) == 1
        assert driver.ask("close") == {"closed": True}


def test_row_7_the_head_of_ray_is_killed_for_good_and_the_application_starts_on_another_ray(
    it: Counting, tmp_path: Path
) -> None:
    with ray_cluster([1, 1], RAY_gcs_rpc_server_reconnect_timeout_s="20") as ray:
        driver = ray.start(it, tmp_path)
        with it.fed():
            ray.cluster.head_node.kill_gcs_server()
            it.assert_continues(20)  # a working actor needs no head
            message = driver.ask("status")
            print(message)
            eventually(lambda: not ray.processes("ray::StreamActor"), "Ray ends what has no head", 120)
            print(driver.ask("status"))
    with ray_cluster([1, 1]) as ray:
        driver = ray.start(it, tmp_path)
        it.all_is_counted_once()
        assert driver.ask("close") == {"closed": True}


def test_row_8_ray_loses_calls_and_answers(it: Counting, tmp_path: Path) -> None:
    losing = {
        "CoreWorkerService.grpc_client.PushTask": {
            "num_failures": -1, "req_failure_prob": 10, "resp_failure_prob": 10, "in_flight_failure_prob": 0,
        }
    }  # fmt: skip
    with ray_cluster([1, 1], RAY_testing_rpc_failure=json.dumps(losing)) as ray:
        driver = ray.start(it, tmp_path)
        with it.fed():
            it.assert_continues(400)
        it.all_is_counted_once()
        assert driver.ask("close") == {"closed": True}


def test_row_18_a_node_that_ray_takes_for_dead_works_on(it: Counting, tmp_path: Path) -> None:
    with ray_cluster([1, 1, 1], **SOON_DEAD) as ray:
        driver = ray.start(it, tmp_path)
        actors = driver.ask("status")["actors"]
        zombie = psutil.Process(next(iter(actors.values())))
        raylet = psutil.Process(zombie.ppid())
        assert raylet.name() == "raylet"
        with it.fed():
            raylet.suspend()
            try:
                eventually(
                    lambda: zombie.pid not in driver.ask("status").get("actors", actors).values(), "it is given up", 90
                )
                assert not has_ended(zombie), "there is no zombie"
                it.assert_continues(200)
            finally:
                raylet.resume()
            raylet.wait(60)  # it is our child: until its exit code is collected, its own children take it for living
            it.assert_continues()
        it.all_is_counted_once()
        eventually(lambda: has_ended(zombie), "the zombie has ended", 60)
        assert driver.ask("close") == {"closed": True}


def test_row_31_an_actor_takes_more_memory_than_there_is(it: Counting, tmp_path: Path) -> None:
    memory = psutil.virtual_memory()
    threshold = (memory.total - memory.available + 1_500_000_000) / memory.total
    limits = {"RAY_memory_usage_threshold": f"{threshold:.3f}", "RAY_memory_monitor_refresh_ms": "250"}
    with ray_cluster([1, 1], **limits) as ray:
        driver = ray.start(it, tmp_path, "allocates")
        before = set(driver.ask("status")["actors"].values())
        with it.fed():
            (tmp_path / "armed" / "one").touch()
            eventually(lambda: set(driver.ask("status").get("actors", {}).values()) - before != set(), "one is new", 90)
            it.assert_continues()
        it.all_is_counted_once()
        assert driver.ask("close") == {"closed": True}


def test_row_33_the_driver_is_killed(it: Counting, tmp_path: Path) -> None:
    with ray_cluster([1, 1]) as ray:
        driver = ray.start(it, tmp_path)
        with it.fed():
            driver.process.send_signal(signal.SIGKILL)
            driver.process.wait(10)
            lasts(3)
            it.assert_continues(200)
        it.all_is_counted_once()
        ended = ray.penstock("stop", it.application_id)
        assert ended.returncode == 0, ended.stderr
        eventually(lambda: not ray.processes("ray::StreamActor"), "no actor is left")
        assert not ray.processes("ray::CoordinatorActor")


def test_row_33_the_supervisor_of_a_job_is_killed(
    kafka: Kafka, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    head, it = Head(), WordCount(kafka.address, topic_name("wc"), tmp_path / "state")
    try:
        eventually(lambda: "Ray runtime started" in head.log, "ray start --head", 120)
        eventually(head.answers, "its dashboard", 120)
        (tmp_path / "work").mkdir()
        write_program(tmp_path / "work", it)
        env = json.dumps({"env_vars": {"PYTHONPATH": str(ROOT)}})
        submitted = head.job(
            "submit", "--no-wait", "--working-dir", str(tmp_path / "work"), "--runtime-env-json", env,
            "--", sys.executable, "-m", "penstock.cli.main", "run", "program:app",
        )  # fmt: skip
        assert submitted.returncode == 0, submitted.stdout + submitted.stderr
        it.send(["a b a"])
        eventually(it.complete, "the job counts", 180)
        family = psutil.Process(head.process.pid)
        [supervisor] = called("ray::JobSupervisor", family)
        [driver] = [each for each in family.children(recursive=True) if "program:app" in each.cmdline()[-1:]]
        supervisor.kill()
        eventually(lambda: has_ended(driver), "Ray ends the driver")
        it.send(["c a"])
        eventually(it.complete, "the application goes on without a driver")
        there = {"RAY_ADDRESS": head.address, **head.environment}
        ended = penstock(tmp_path, "stop", it.application_id, **there)
        assert ended.returncode == 0, ended.stderr
        eventually(lambda: not called("ray::StreamActor", family), "no actor is left")
    finally:
        head.end()
