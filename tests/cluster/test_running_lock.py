"""A second start of an application with the same state directory, while the first one runs."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.cluster.ray_cluster import running_lock
from penstock.cluster.ray_cluster.running_lock import RunningLock, refuse_running_elsewhere
from penstock.common.errors import ApplicationStateError, ConfigError
from penstock.state.disk import directory_lock
from tests.cluster.conftest import WordCount
from tests.waiting import PATIENCE_S

HOLDER = """
import sys
from pathlib import Path
from penstock.cluster.ray_cluster.running_lock import RunningLock
lock = RunningLock(Path(sys.argv[1]), "the Ray cluster at 10.0.0.7:6379")
lock.take()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_lock, "ENDS_WITHIN_S", 0.0)


@contextmanager
def running(home: Path) -> Iterator[None]:
    """A coordinator in another process, until the end of the block: killed, as by the end of its cluster."""
    command = [sys.executable, "-c", HOLDER, str(home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield
        process.kill()


def test_a_second_start_is_refused_while_the_first_runs_and_names_its_cluster(tmp_path: Path) -> None:
    home = tmp_path / "orders"
    refuse_running_elsewhere(home)
    with running(home):
        with pytest.raises(ApplicationStateError) as refusal:
            refuse_running_elsewhere(home)
        reported = str(refusal.value)
        for part in (
            "'orders' already runs in the Ray cluster at 10.0.0.7:6379",
            "penstock stop orders",
            "--take-over",
        ):
            assert part in reported
    refuse_running_elsewhere(home)


def test_a_coordinator_holds_the_lock_until_it_ends(tmp_path: Path) -> None:
    home = tmp_path / "orders"
    first, second = RunningLock(home, "here"), RunningLock(home, "there")
    first.take()
    with pytest.raises(ApplicationStateError, match="already runs in here"):
        second.take()
    first.release()
    first.release()
    second.take()
    assert second.held
    second.release()


def test_one_that_takes_over_has_the_lock_once_the_other_has_ended(tmp_path: Path) -> None:
    home = tmp_path / "orders"
    lock = RunningLock(home, "here")
    with running(home):
        lock.try_again()
        assert not lock.held
    lock.try_again()
    assert lock.held
    lock.release()


def test_a_state_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    home = tmp_path / "state" / "orders"
    with pytest.raises(ConfigError, match=r"state\.dir .*state' cannot be written by the coordinator"):
        RunningLock(home, "here").take()
    refuse_running_elsewhere(home)


def test_a_start_leaves_no_lock_file_of_its_own_user(tmp_path: Path) -> None:
    home = tmp_path / "orders"
    home.mkdir()
    refuse_running_elsewhere(home)
    assert not list(home.iterdir())


@pytest.fixture
def of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of an application, whose lock file user 4711 has made; root may open any file."""
    home = tmp_path / "orders"
    home.mkdir()
    lock = home / "coordinator.lock"
    lock.touch(mode=0o644)
    if os.geteuid() == 0:
        os.chown(lock, 4711, 4711)

    def refused(path: Path, flags: int, mode: int = 0o777) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(directory_lock, "os", SimpleNamespace(**{**vars(os), "open": refused}))
    return home


def test_a_lock_file_of_another_user_is_named_with_its_owner_and_the_way_out(of_another_user: Path) -> None:
    with pytest.raises(ConfigError) as refusal:
        RunningLock(of_another_user, "here").take()
    reported = str(refusal.value)
    owner = (of_another_user / "coordinator.lock").stat().st_uid
    assert "may not write it. Run all processes of the application as one user" in reported
    assert "delete the file: " in reported
    assert f"{of_another_user}/coordinator.lock" in reported
    assert owner != 4711 or "belongs to user 4711" in reported
    refuse_running_elsewhere(of_another_user)


@pytest.mark.long
def test_a_running_application_locks_a_second_start_out_and_one_that_has_stopped_does_not(
    word_count: Callable[[], WordCount],
) -> None:
    it = word_count()
    home = it.state_dir / it.application_id
    with it.app() as app:
        app.wait_until_running(PATIENCE_S)
        with pytest.raises(ApplicationStateError, match="already runs in the Ray cluster at"):
            refuse_running_elsewhere(home)
    refuse_running_elsewhere(home)
    lock = RunningLock(home, "the Ray cluster at 10.0.0.7:6379")
    lock.take()
    with pytest.raises(ApplicationStateError, match=r"already runs in the Ray cluster at 10\.0"):
        it.app().start()
    again = it.app()
    again.start(take_over=True)
    again.wait_until_running(PATIENCE_S)
    lock.release()
    assert again.close()
