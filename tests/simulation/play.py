"""Playing one seed."""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import structlog

from penstock.actors.checkpoints import fetching, taking
from penstock.actors.commits import exactly_once, guarantee
from penstock.actors.restore import replays
from penstock.actors.restore.replays import Replays
from penstock.actors.standbys import standby_retries, standbys
from penstock.actors.task_host.standby_task import StandbyTask
from penstock.checkpoints import deletion, transfers, writer
from penstock.cluster.coordinator_shell import stream_actor_handle
from penstock.common.ids import TaskId
from penstock.objects.storage import ObjectLocation
from penstock.state.disk import bulk_load, task_stores
from penstock.tasks import context
from penstock.testing import fake_producers
from tests.actors.rig import ManualClock
from tests.simulation.checked_checkpoints import damaged_checkpoints
from tests.simulation.checks import differences
from tests.simulation.faults import FAULTS, strike
from tests.simulation.one_host import expected, restored, rows_of
from tests.simulation.setting import ALL_FROM_THE_SEED, Choice, Setting, setting_of
from tests.simulation.simulated_disk import SimulatedDisks
from tests.simulation.simulated_objects import DELETION_DELAY_MS, LONGEST_UPLOAD_MS, SimulatedObjects
from tests.simulation.simulated_threads import Processes
from tests.simulation.virtual_clock import BEGIN_MS, SimulatedLoop
from tests.simulation.world import ViolationError, World

_PUT_AT_ONCE = 2
"""Rows of a restore that are written at once: so few that it takes as long as a large one."""
_DISKS = Path("/dev/shm") if Path("/dev/shm").is_dir() else None


@dataclass
class Result:
    """The result of one run. ``violation``: None if all was well."""

    seed: int
    violation: str | None
    trace: list[str]
    virtual_s: float
    steps: int


class _AtOnce(Executor):
    """Runs calls at once, in the only thread there is."""

    def __init__(self, *_: object) -> None:
        """Ignores the number of threads."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done


class _Digits:
    """The digits that make the names of objects unique."""

    count = 0

    @classmethod
    def token_hex(cls, _: int) -> str:
        cls.count += 1
        return f"{cls.count:016x}"


def _of_the_machine() -> float:
    raise AssertionError("an actor reads CPU time from its clock, so that the same seed is the same run")


@contextmanager
def one_thread(loop: SimulatedLoop, setting: Setting, processes: Processes, objects: Any) -> Iterator[None]:
    """Keeps production code from threads that run at the same time, and from the machine's clock, except for the age of
    unused directories: so the cleaner never removes one."""

    class Time:
        time = staticmethod(lambda: BEGIN_MS / 1000 + loop.time())
        monotonic = staticmethod(loop.time)

    with ExitStack() as patches:
        patches.enter_context(patch.object(time, "thread_time", _of_the_machine))
        for module in (guarantee, exactly_once):
            patches.enter_context(patch.object(module, "close_aside", lambda producer: producer.close()))
        for module in (standbys, standby_retries):
            patches.enter_context(patch.object(module, "ThreadPoolExecutor", _AtOnce))
        for module in (fetching, taking):
            patches.enter_context(patch.object(module, "ThreadPoolExecutor", processes.executor))
        patches.enter_context(patch.object(transfers, "ThreadPoolExecutor", _AtOnce))
        patches.enter_context(patch.object(transfers, "token_hex", _Digits.token_hex))
        patches.enter_context(patch.object(fetching, "WORTH_A_DOWNLOAD", setting.storage.worth))
        patches.enter_context(patch.object(ObjectLocation, "open", lambda _: objects))
        patches.enter_context(patch.object(writer, "LONGEST_UPLOAD_MS", LONGEST_UPLOAD_MS))
        for module in (writer, deletion):
            patches.enter_context(patch.object(module, "DELETION_DELAY_MS", DELETION_DELAY_MS))
        for module in (fake_producers, writer):
            patches.enter_context(patch.object(module, "time", Time))
        # Otherwise results depend on when records come.
        patches.enter_context(patch.object(context, "EMIT_INTERVAL_MS", 0))
        patches.enter_context(patch.object(replays, "_WORTH_A_LOAD", setting.worth_a_load))
        patches.enter_context(patch.object(bulk_load, "_PUT_AT_ONCE", _PUT_AT_ONCE))
        patches.enter_context(patch.object(stream_actor_handle, "require_coordinator", lambda _: None))
        if not setting.on_rocksdb:
            disks = SimulatedDisks()
            patches.enter_context(patch.object(task_stores, "RocksDBTaskStores", disks.open))
            patches.enter_context(patch.object(task_stores, "destroy", disks.destroy))
        yield


def quiet() -> None:
    """Silences the log of this process."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def play(seed: int, choice: Choice = ALL_FROM_THE_SEED) -> Result:
    """Plays one run; never raises."""
    loop, setting = SimulatedLoop(), setting_of(seed, choice, FAULTS)
    found: dict[str, Any] = {"trace": [], "steps": 0}
    violation: str | None = None
    objects = SimulatedObjects(setting.storage, Random(f"objects {seed}"), lambda: BEGIN_MS + int(loop.time() * 1000))
    processes = Processes(loop)
    _Digits.count = 0
    with (
        tempfile.TemporaryDirectory(prefix="penstock-simulation-", dir=_DISKS) as folder,
        one_thread(loop, setting, processes, objects),
    ):
        try:
            loop.run_until_complete(_play(seed, setting, Path(folder), found, processes, objects))
        except ViolationError as error:
            violation = str(error)
        except Exception as error:  # of the simulation itself, or of what it plays
            violation = f"{type(error).__name__}: {error}"
            found["trace"].append(traceback.format_exc())
        finally:
            processes.end_all()
            if "world" in found:
                found["trace"] = [*found["world"].trace, *found["trace"]]
                found["steps"] = found["world"].steps
            loop.close()
    return Result(seed, violation, found["trace"], loop.time(), found["steps"])


async def _play(
    seed: int, setting: Setting, folder: Path, found: dict[str, Any], processes: Processes, objects: SimulatedObjects
) -> None:
    world = World(seed, setting, folder / "disks", processes, objects)
    found["world"] = world
    try:
        world.begin()
        await _be_troubled(world)
        world.calm()
        await world.come_to_rest()
        _raise_first(_unlike_changelogs(world, folder / "at rest", with_standbys=world.exactly_once))
        if not world.exactly_once:
            # A standby follows up to the last commit that it heard of. Records with lost answers are in the next one.
            world.feed_each_key()
            await world.come_to_rest()
            _raise_first(_unlike_changelogs(world, folder / "after another commit", with_standbys=True))
        # A left or outer join gives what has no match when a later record comes. As in Kafka Streams it takes the row
        # at which it last ended its search for the oldest that waits. After a crash that may be that of a record which
        # comes again. Then an older one comes out later than without faults, and needs a later record for it.
        world.feed_closing()
        await world.come_to_rest()
        world.note_downloads()
        _raise_first(damaged_checkpoints(world, folder / "checkpoints"))
        _raise_first(_unlike_expected(world, folder))
    finally:
        world.end()


async def _be_troubled(world: World) -> None:
    feeding, setting = world.spawn(_feed(world)), world.setting
    until_s = world.now() + setting.troubled_s
    while world.now() < until_s:
        await world.pass_time(world.rng.uniform(0, 2 * setting.fault_each_s))
        strike(world, setting.weights)
    if setting.outlasted:
        await world.pass_time(world.rng.uniform(100, 300))  # what has begun comes to its end, however long it takes
    feeding.cancel()


async def _feed(world: World) -> None:
    while True:
        await asyncio.sleep(world.rng.uniform(0.1, 3.0))
        world.feed()


def _raise_first(problems: Iterator[str]) -> None:
    for problem in problems:
        raise ViolationError(problem)


def _unlike_expected(world: World, folder: Path) -> Iterator[str]:
    wanted = expected(world.spec, world.topics, world.bunches, BEGIN_MS, folder / "expected")
    yield from differences(world.program, wanted, world.broker, world.exactly_once)


def _unlike_changelogs(world: World, folder: Path, with_standbys: bool) -> Iterator[str]:
    """Yields the stores of tasks, and if wanted of standbys, that differ from what their changelogs make."""
    clock = ManualClock(world.clock.wall_ms())
    wanted = restored(world.spec, world.broker, clock, folder)
    for actor in (actor for cluster in world.clusters for actor in cluster.living()):
        loop = actor.actor.loop
        if loop is None:
            continue
        # Others wait for a commit that lets them follow, or for a broker that was away, or write rows that they have
        # gathered.
        begun = loop._standbys.by_id.values() if with_standbys else ()
        gathering = _gathering(loop._standbys._following._replays)
        following = [it for it in begun if it.id in loop._standbys._begun and it.id not in gathering]
        for role, held in (("task", [*loop._tasks.values()]), ("standby", following)):
            for (store, task), rows in rows_of(held):
                if store.startswith("deduplicated"):  # it expires rows when one comes, or when it is restored
                    rows = {key: value for key, value in rows.items() if key in wanted[store, task]}
                expected_rows = wanted[store, task]
                if role == "task" and store.startswith("punctuated"):  # it may have deleted rows since its last commit
                    expected_rows = {key: value for key, value in expected_rows.items() if key in rows}
                if rows != expected_rows:
                    differs = _unlike(rows, expected_rows)
                    yield f"{role} {task} on {actor.name}: store {store} is not what its changelog makes: {differs}"


def _gathering(following: Replays[StandbyTask]) -> set[TaskId]:
    """Returns the standbys that have rows which are not in their stores yet."""
    tasks = {replay.task.id for replay in following.by_partition.values() if replay.load is not None}
    return tasks if following._writing is None else {*tasks, following._writing[0].task.id}


def _unlike(found: dict[str, str], wanted: dict[str, str]) -> str:
    keys = [key for key in sorted(found.keys() | wanted.keys()) if found.get(key) != wanted.get(key)]
    return ", ".join(f"{key}: {found.get(key)}, restored {wanted.get(key)}" for key in keys[:3])
