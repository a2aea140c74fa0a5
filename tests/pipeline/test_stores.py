"""The stores of tasks on an executor's disk: where they lie, and what is left of them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from penstock.common.errors import ProcessingError, StateStoreError
from penstock.common.ids import TaskId
from penstock.pipeline.rows import CHANGELOG
from penstock.pipeline.task_hosts.stores import LOCAL_DIRS, TaskDisk, remove_left
from tests.live.bunches import PARTITIONS
from tests.pipeline.rows import host, output, process, run
from tests.pipeline.test_cycle_host import history
from tests.pipeline.test_cycle_host import host as cycle_host
from tests.pipeline.topologies import failing, foreign_key_join, latest_words


@pytest.fixture(autouse=True)
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A local directory such as Spark gives to an executor."""
    own = tmp_path / "blockmgr-1"
    own.mkdir()
    monkeypatch.setenv(LOCAL_DIRS, str(own))
    return own / "penstock-stores"


def left(local: Path) -> list[str]:
    return sorted(path.name for path in local.parent.parent.rglob("*") if path.is_file())


def databases(local: Path) -> list[str]:
    return sorted(path.name for path in local.iterdir() if path.is_dir())


def test_a_task_has_its_stores_on_disk_until_it_ends(local: Path) -> None:
    made = host(latest_words())
    seen: list[list[str]] = []

    rows = [process(task, "lines", 0, "k", "v", 1) for task in (0, 1)]
    results = output(run(made, rows, 1, lambda: seen.append(databases(local))))
    assert len(results[CHANGELOG]) == 2
    first, second = seen
    run_id = made.settings.run_id
    assert [name.rsplit("-", 1)[0] for name in first] == [f"app-{run_id}-0_0-0"], "run, task and attempt"
    assert [name.rsplit("-", 1)[0] for name in second] == [f"app-{run_id}-0_1-0"], "one task after the other"
    assert left(local) == []


def test_a_cycle_has_the_stores_of_all_its_tasks_there(local: Path) -> None:
    made, seen = cycle_host(foreign_key_join()), set[str]()
    rows = history(random.Random(1), ("left", "right"), 100)

    output(run(made, rows, 50, lambda: seen.update(name.split("-")[2] for name in databases(local))))
    assert seen == {f"{sub}_{number}" for sub in (0, 1) for number in range(PARTITIONS)}
    assert left(local) == []


def test_a_task_that_fails_leaves_nothing(local: Path) -> None:
    topology = failing("lines", "out")
    rows = [process(0, "lines", offset, "k", line, offset) for offset, line in enumerate(["good", "bad"])]
    with pytest.raises(ProcessingError):
        output(run(host(topology), rows, 1))
    assert left(local) == []


def test_a_task_that_spark_stops_leaves_nothing(local: Path) -> None:
    running = run(host(latest_words()), [process(0, "lines", 0, "k", "v", 1)], 1)
    next(running)
    running.close()  # type: ignore[attr-defined]
    assert left(local) == []


def test_what_a_killed_worker_has_left_is_removed_and_what_is_in_use_is_not(local: Path) -> None:
    program = textwrap.dedent("""
        from penstock.common.ids import TaskId
        from penstock.pipeline.task_hosts.stores import TaskDisk
        disk = TaskDisk("app-killed", TaskId(0, 0))
        (disk.directory / "state").write_text("x")
        print("there", flush=True)
        input()
    """)
    other = local.parent.with_name("blockmgr-2")  # of an executor that was killed with its worker
    for folder in (local.parent, other):
        environment = {**os.environ, LOCAL_DIRS: str(folder)}
        worker = subprocess.Popen(
            [sys.executable, "-c", program], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        with worker:
            assert worker.stdout is not None
            assert worker.stdout.readline() == b"there\n"
            remove_left()
            assert "state" in left(local), "the worker is alive"
            worker.send_signal(signal.SIGKILL)
        mine = TaskDisk("app-mine", TaskId(0, 0))
        (mine.directory / "own").write_text("x")
        remove_left()
        assert "own" in left(local)
        mine.close()
        assert left(local) == []


def test_a_repeated_task_does_not_meet_the_directory_of_the_attempt_before() -> None:
    disks = [TaskDisk("app-run", TaskId(0, 0)) for _ in range(2)]
    assert disks[0].directory != disks[1].directory
    for disk in disks:
        disk.close()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(LOCAL_DIRS, str(tmp_path / "file"))
    with pytest.raises(StateStoreError, match=r"task 0_0: no directory for its stores.*spark.local.dir"):
        _ = TaskDisk("app", TaskId(0, 0)).directory
