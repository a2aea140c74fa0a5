"""A state machine that plays holders of a task, restores and deleters over one storage, operation by operation.

Any of them may be stopped for any time, killed before any operation, or lose the storage's answer; objects may be
damaged. What must hold is in ``saved_by``, ``restored_by``, ``no_manifest_lacks_files`` and ``nothing_is_left_over``.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.checkpoints import hand_overs, repository, transfers, writer
from penstock.checkpoints.errors import CheckpointDamagedError, CheckpointLateError, CheckpointSupersededError
from penstock.checkpoints.fetching import fetch_newest
from penstock.checkpoints.fitness import ExpectedState, ExpectedStore
from penstock.checkpoints.limits import DELETION_DELAY_MS, KEPT, LONGEST_UPLOAD_MS
from penstock.checkpoints.manifest import (
    CheckpointDraft,
    ManifestName,
    StoreInCheckpoint,
    decode,
    parse_name,
)
from penstock.checkpoints.repository import CheckpointRepository
from penstock.common.errors import ObjectStoreError
from penstock.objects.memory import MemoryObjects
from penstock.objects.prefix import ObjectsBelow
from tests.checkpoints.players import Deletion, Holder, Playing, Restore, Rows, Save, Seen
from tests.checkpoints.processes import Fault, Gate, Process, SteppedObjects

APPLICATION, TASK, STORE = "app", "0_0", "counts"
EXPECTED = ExpectedState({STORE: ExpectedStore("rows", "changelog", "id")}, {})
MINUTE_MS = 60_000
FAULTS: list[Fault] = ["not done", "done, and the answer lost"]
_OFFSET = b'"changelog_offset":'
_EVENTS = "save, save, save again, save in vain, delete, delete, take over, restore, half an hour, an hour, an hour"
EVENTS = st.sampled_from(_EVENTS.split(", "))


class CheckpointMachine(RuleBasedStateMachine):
    """See the module. Planted mistakes change what its processes call."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000_000_000
        self.storage = MemoryObjects(lambda: self.now_ms)
        self.objects = ObjectsBelow(self.storage, f"{APPLICATION}/")
        self.home = Path(tempfile.mkdtemp(prefix="penstock-checkpoints-"))
        self.folders = 0
        self.random = Random(0)
        self.epochs = count(1)
        self.taken: set[tuple[int, frozenset[tuple[str, bytes]]]] = set()
        self.saved: ManifestName | None = None
        self.damaged: set[str] = set()
        self.damages = 0
        self.calm = True
        self.seen = Seen()
        self.holders: list[Holder] = []
        self.processes: list[Playing] = []
        self.patch = pytest.MonkeyPatch()
        for module in (writer, repository, hand_overs):
            self.patch.setattr(module, "for_all", self.one_by_one)
        tokens = count()
        self.patch.setattr(transfers, "token_hex", lambda size: f"{next(tokens):0{size}}")
        self.take_over("scratch")

    def one_by_one(self, call: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """``for_all`` without threads, in any order."""
        numbered = list(enumerate(items))
        self.random.shuffle(numbered)
        return [
            result for _, result in sorted(((number, call(item)) for number, item in numbered), key=lambda it: it[0])
        ]

    @initialize(calm=st.booleans())
    def decide(self, calm: bool) -> None:
        """Half of all plays have no faults but time."""
        self.calm = calm

    # The life of the task.

    @rule(disk=st.sampled_from(["same disk", "checkpoint", "scratch"]))
    @precondition(lambda self: len(self.holders) < 5)
    def take_over(self, disk: str) -> None:
        """Another actor gets the task, with all that was committed; the present holder may not know it yet."""
        last = self.holders[-1] if self.holders else None
        epoch, gate = next(self.epochs), Gate()
        objects = ObjectsBelow(SteppedObjects(self.storage, gate), f"{APPLICATION}/")
        made = writer.CheckpointWriter(objects, APPLICATION, TASK, epoch, lambda: self.now_ms)
        holder = Holder(epoch, gate, made, {}, last.commits if last else 0, tables_made=last.tables_made if last else 0)
        fetched = self.restore_at_once() if disk == "checkpoint" else None
        if disk == "same disk" and last is not None:
            holder.tables = dict(last.tables)
        elif fetched is not None:
            holder.tables = {name: content for name, content in fetched.items() if name != "MANIFEST"}
        self.holders.append(holder)
        self.change(holder)

    @rule(compaction=st.booleans())
    def commit(self, compaction: bool) -> None:
        """The present holder commits."""
        holder = self.holders[-1]
        holder.commits += 1
        if compaction:
            holder.tables.clear()
        self.change(holder)

    def change(self, holder: Holder) -> None:
        holder.tables_made += 1
        name = f"{holder.tables_made:06}.sst"
        holder.tables[name] = f"{name} of epoch {holder.epoch}, up to {holder.commits}".encode()

    # Processes begin.

    @rule(data=st.data(), seed=st.integers(0, 99))
    def begin_save(self, data: st.DataObject, seed: int) -> None:
        free = [holder for holder in self.holders if holder.process is None]
        if free:
            self.random.seed(seed)
            self.save(data.draw(st.sampled_from(free[::-1]), label="holder"))

    def save(self, holder: Holder) -> None:
        rows, folder = holder.rows(), self.folder()
        for name, content in rows.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        self.taken.add((holder.commits, frozenset(rows.items())))
        stored = StoreInCheckpoint("rows", "changelog", "id", holder.commits)
        draft = CheckpointDraft(self.now_ms, {STORE: stored}, {})
        process = Process(f"save {holder.epoch}", holder.gate, lambda: holder.writer.save(folder, draft))
        holder.process = Save(process, holder, self.now_ms)
        self.begun(holder.process)

    @rule()
    @precondition(lambda self: len(self.processes) < 5)
    def begin_restore(self) -> None:
        gate, folder = Gate(), self.folder()
        checkpoints = CheckpointRepository(SteppedObjects(self.storage, gate), APPLICATION)
        process = Process("restore", gate, lambda: fetch_newest(checkpoints, TASK, EXPECTED, folder))
        self.begun(Restore(process, folder, self.now_ms, self.saved))

    @rule()
    @precondition(lambda self: len(self.processes) < 5)
    def begin_deletion(self) -> None:
        gate = Gate()
        checkpoints = CheckpointRepository(SteppedObjects(self.storage, gate), APPLICATION)
        self.begun(Deletion(Process("deletion", gate, checkpoints.delete_unneeded)))

    # They go on, or do not.

    @rule(data=st.data(), operations=st.integers(1, 12))
    @precondition(lambda self: self.processes)
    def go_on(self, data: st.DataObject, operations: int) -> None:
        chosen = self.choose(data)
        for _ in range(operations):
            if chosen in self.processes:
                self.step(chosen)

    @rule(data=st.data())
    @precondition(lambda self: self.processes)
    def finish(self, data: st.DataObject) -> None:
        self.run_all([self.choose(data)])

    @rule(operations=st.integers(2, 10), events=st.lists(EVENTS, min_size=1, max_size=5))
    @precondition(lambda self: self.holders[-1].process is None)
    def a_save_is_stopped(self, operations: int, events: list[str]) -> None:
        """The process continues after all ``events``."""
        self.commit(compaction=False)
        self.stop_meanwhile(partial(self.save, self.holders[-1]), operations, events)

    @rule(events=st.lists(EVENTS, min_size=1, max_size=5))
    @precondition(lambda self: self.holders[-1].process is None)
    def a_save_is_stopped_before_its_manifest(self, events: list[str]) -> None:
        """The process continues after all ``events``."""
        self.commit(compaction=False)
        self.stop_meanwhile(lambda: self.until("create", partial(self.save, self.holders[-1])), 0, events)

    @rule(operations=st.integers(2, 8), events=st.lists(EVENTS, min_size=1, max_size=5))
    @precondition(lambda self: self.saved is not None)
    def a_restore_is_stopped(self, operations: int, events: list[str]) -> None:
        """The process continues after all ``events``."""
        self.stop_meanwhile(self.begin_restore, operations, events)

    @rule(
        deletions=st.integers(0, 3),
        before=st.lists(EVENTS, max_size=3),
        events=st.lists(EVENTS, min_size=1, max_size=3),
    )
    def a_deletion_is_stopped(self, deletions: int, before: list[str], events: list[str]) -> None:
        """The deleter has made its plan, and continues after all ``events``."""
        for event in before:
            self.happen(event)

        self.stop_meanwhile(lambda: self.until("delete", self.begin_deletion), deletions, events)

    def until(self, operation: str, begin: Callable[[], None]) -> None:
        """Begin a process, and let it go on until its next operation is ``operation``."""
        running = self.processes[:]
        begin()
        for begun in [it for it in self.processes if it not in running]:
            while begun in self.processes and not begun.process.next_operation.startswith(operation):
                self.step(begun)

    def stop_meanwhile(self, begin: Callable[[], object], operations: int, events: list[str]) -> None:
        running = self.processes[:]
        begin()
        begun = [it for it in self.processes if it not in running]
        for it in begun * operations:
            if it in self.processes:
                self.step(it)
        self.no_manifest_lacks_files()
        for event in events:
            self.happen(event)
        self.run_all(begun)

    def happen(self, event: str) -> None:
        running = self.processes[:]
        match event:
            case "delete":
                self.begin_deletion()
            case "restore":
                self.begin_restore()
            case "take over":
                self.take_over("scratch")
            case "save" | "save again" | "save in vain":
                if event == "save":
                    self.commit(compaction=False)
                if self.holders[-1].process is None:
                    self.save(self.holders[-1])
                for begun in self.processes[:]:
                    while event == "save in vain" and begun not in running and begun in self.processes:
                        self.step(begun, "not done" if begun.process.next_operation.startswith("create") else "")
            case "half an hour":
                self.pass_time(30)
            case _:
                self.pass_time(61)
        self.run_all([begun for begun in self.processes if begun not in running])

    @rule(data=st.data(), fault=st.sampled_from(FAULTS))
    @precondition(lambda self: self.processes and not self.calm)
    def lose_the_storage(self, data: st.DataObject, fault: Fault) -> None:
        self.step(self.choose(data), fault)

    @rule(data=st.data())
    @precondition(lambda self: self.processes and not self.calm)
    def kill(self, data: st.DataObject) -> None:
        chosen = self.choose(data)
        self.processes.remove(chosen)
        chosen.process.kill()
        if isinstance(chosen, Save):
            self.holders[:] = [it for it in self.holders if it is not chosen.holder or it is self.holders[-1]]
            chosen.holder.process = None

    @rule(minutes=st.sampled_from([1, 10, 30, 50, 70]))
    def pass_time(self, minutes: int) -> None:
        self.now_ms += minutes * MINUTE_MS

    @rule(data=st.data(), how=st.sampled_from(["missing", "short", "changed"]))
    @precondition(lambda self: not self.calm and self.damages < 2 and self.saved is not None)
    def damage(self, data: st.DataObject, how: str) -> None:
        """The storage loses an object, or a part of it."""
        names = [info.name for info in self.objects.list() if info.name != "clock" and info.size > 1]
        if not names:
            return
        self.damages += 1
        name = data.draw(st.sampled_from(names), label="object")
        content = self.objects.read(name)
        if how == "missing":
            self.objects.delete([name])
        else:
            self.objects.put(name, content[:-1] if how == "short" else changed(content))
        self.damaged.add(name)
        place = parse_name(name)
        if how == "missing" and place is not None:  # nothing protects its files any more
            self.damaged.update(self.seen.known[place].objects)

    # What must hold.

    def saved_by(self, save: Save) -> None:
        """A holder is told that its checkpoint is written only if it is whole, and no later holder has written one."""
        save.holder.process = None
        error = save.process.error
        if error is not None:
            assert isinstance(error, CheckpointSupersededError | CheckpointLateError | ObjectStoreError), error
            if isinstance(error, CheckpointSupersededError):
                assert any(name.epoch > save.holder.epoch for name in self.seen.known), "nobody has superseded it"
            return
        assert save.process.result is not None
        name = save.process.result.name
        assert name not in self.seen.late
        later = {str(it) for it in self.seen.superseded_by.get(name, ())} - self.damaged
        assert not later, "it was told that its checkpoint counts, but a later holder had written"
        self.saved = max(name, self.saved or name)

    def restored_by(self, restore: Restore) -> None:
        """A restore brings back a state that once was committed; the newest one that was saved, unless that has been
        damaged, or it took so long that the checkpoint was deleted under it."""
        if restore.process.error is not None:
            assert isinstance(restore.process.error, ObjectStoreError), restore.process.error
            return
        found = restore.process.result
        if found is not None:
            rows = self.rows_in(restore.folder)
            commits = found.manifest.stores[STORE].changelog_offset
            assert (commits, frozenset(rows.items())) in self.taken, "it was never committed"
        if restore.saved is not None and self.now_ms - restore.began_ms < DELETION_DELAY_MS:
            needed = {str(restore.saved), *self.seen.known[restore.saved].objects}
            if not needed & self.damaged:
                assert found is not None, f"{restore.saved} was saved, and nothing is found"
                assert found.manifest.name >= restore.saved, f"{restore.saved} was saved, and is not found"

    @invariant()
    def no_manifest_lacks_files(self) -> None:
        """A manifest is there only together with all of its files, unless its upload took too long or the storage has
        lost some."""
        there = {info.name: info.size for info in self.objects.list()}
        for name in there:
            place = parse_name(name)
            if place is None or name in self.damaged or place in self.seen.late:
                continue
            lacking = self.seen.known[place].objects.items() - there.items()
            assert {name for name, _ in lacking} <= self.damaged, f"{name} lacks files"

    def teardown(self) -> None:
        try:
            for begun in list(self.processes):
                begun.process.kill()
            self.processes.clear()
            self.begin_restore()
            self.run_all(self.processes[:])
            for _ in range(3):
                self.now_ms += 2 * DELETION_DELAY_MS
                self.begin_deletion()
                self.run_all(self.processes[:])
            self.begin_restore()
            self.run_all(self.processes[:])
            self.nothing_is_left_over()
        finally:
            for begun in self.processes:
                begun.process.kill()
            self.patch.undo()
            shutil.rmtree(self.home, ignore_errors=True)

    def nothing_is_left_over(self) -> None:
        """Objects that nobody needs are deleted in the end."""
        there = {info.name for info in self.objects.list()} - {"clock"} - self.damaged
        manifests = {name for name in there if parse_name(name)}
        assert len(manifests) <= KEPT + 1 + self.damages
        if not self.damaged:
            needed = {name for it in self.seen.known.values() if str(it.name) in manifests for name in it.objects}
            assert there - manifests <= needed

    # Means.

    def choose(self, data: st.DataObject) -> Playing:
        numbers = st.integers(0, len(self.processes) - 1)
        return self.processes[data.draw(numbers, label=f"of {[it.process.name for it in self.processes]}")]

    def run_all(self, chosen: list[Playing]) -> None:
        for begun in chosen:
            while begun in self.processes:
                self.step(begun)

    def step(self, begun: Playing, fault: Fault = "") -> None:
        operation = begun.process.next_operation
        begun.process.step(fault)
        if isinstance(begun, Save) and operation.startswith("create ") and fault != "not done":
            self.look_at_manifest(begun, operation.removeprefix(f"create {APPLICATION}/"))
        self.begun(begun)

    def begun(self, begun: Playing) -> None:
        """Keep the process until it has ended; then look at what it did."""
        if not begun.process.ended:
            if begun not in self.processes:
                self.processes.append(begun)
            return
        if begun in self.processes:
            self.processes.remove(begun)
        match begun:
            case Save():
                self.saved_by(begun)
            case Restore():
                self.restored_by(begun)
            case Deletion():
                assert begun.process.error is None or isinstance(begun.process.error, ObjectStoreError)

    def look_at_manifest(self, save: Save, name: str) -> None:
        place = parse_name(name)
        assert place is not None
        self.seen.known[place] = decode(self.objects.read(name), place, APPLICATION)
        if self.now_ms - save.began_ms > LONGEST_UPLOAD_MS:
            self.seen.late.add(place)
        self.seen.superseded_by[place] = {other for other in self.seen.known if other.epoch > place.epoch}

    def restore_at_once(self) -> Rows | None:
        folder = self.folder()
        try:
            found = fetch_newest(CheckpointRepository(self.storage, APPLICATION), TASK, EXPECTED, folder)
        except CheckpointDamagedError:
            return None
        return self.rows_in(folder) if found is not None else None

    def folder(self) -> Path:
        self.folders += 1
        return self.home / str(self.folders)

    @staticmethod
    def rows_in(folder: Path) -> Rows:
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def changed(content: bytes) -> bytes:
    """Returns ``content`` with another bit: in a manifest, one of the offset."""
    index = content.index(_OFFSET) + len(_OFFSET) if _OFFSET in content else 0
    return content[:index] + bytes([content[index] ^ 1]) + content[index + 1 :]
