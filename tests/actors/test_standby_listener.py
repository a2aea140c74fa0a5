"""The calls of a standby update listener (KIP-988)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.actors.standbys.standby_events import StandbyEvents
from penstock.common.ids import TaskId, TopicPartition
from tests.actors.rig import CHANGELOG, HeardRestores, Rig, settle
from tests.actors.standbys import READS, TASK, log, raising, standby_of


class HeardUpdates(ps.StandbyUpdateListener):
    """Keeps every call with its figures."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def on_update_start(self, partition: TopicPartition, store_name: str, starting_offset: int) -> None:
        self.calls.append(("start", partition, store_name, starting_offset))

    def on_batch_loaded(
        self,
        partition: TopicPartition,
        store_name: str,
        task_id: TaskId,
        batch_end_offset: int,
        batch_size: int,
        current_end_offset: int,
    ) -> None:
        self.calls.append(("batch", task_id, batch_end_offset, batch_size, current_end_offset))

    def on_update_suspended(
        self,
        partition: TopicPartition,
        store_name: str,
        store_offset: int,
        current_end_offset: int,
        reason: ps.SuspendReason,
    ) -> None:
        self.calls.append(("suspended", partition, store_name, store_offset, current_end_offset, reason))


def test_a_standby_update_listener_hears_start_batches_and_promotion_before_the_restore_begins(tmp_path: Path) -> None:
    rig = Rig(tmp_path, processing_guarantee="exactly_once_v2")
    heard, restores = HeardUpdates(), HeardRestores()
    changelog = TopicPartition(CHANGELOG, 0)
    log(rig, "ada", 1)
    log(rig, "bob", 1)
    rig.spec = replace(rig.spec, standby_listener=heard, restore_listener=restores)
    restores.calls = heard.calls  # in one list, as they come
    standby = standby_of(rig)
    assert heard.calls == [("start", changelog, "counts", 0), ("batch", TASK, 1, 2, 2)]
    log(rig, "ada", 2)
    settle(standby)
    assert heard.calls[2:] == [("batch", TASK, 2, 1, 3)]
    log(rig, "eve", 1)  # which it has not read yet
    standby.assign(2, READS)
    settle(standby)
    promoted = ("suspended", changelog, "counts", 2, 4, ps.SuspendReason.PROMOTED)
    assert [call for call in heard.calls[3:] if call[0] != "batch"][:2] == [
        promoted,
        ("start", 3, 4),
    ]


def test_a_standby_update_listener_learns_that_a_standby_is_given_up_begins_again_or_ends_with_its_actor(
    tmp_path: Path,
) -> None:
    rig = Rig(tmp_path, processing_guarantee="exactly_once_v2")
    heard = HeardUpdates()
    rig.spec = replace(rig.spec, standby_listener=heard)
    log(rig, "ada", 1)
    standby = standby_of(rig)
    log(rig, "bob", 3)
    log(rig, "bob", 4)
    rig.clients.admin().delete_records({TopicPartition(CHANGELOG, 0): 2})
    settle(standby)
    assert [call[0] for call in heard.calls] == ["start", "batch", "suspended", "start", "batch"]
    assert heard.calls[2][-1] is ps.SuspendReason.MIGRATED
    standby.assign(2, {}, {})
    settle(standby)
    assert heard.calls[-1][-3:] == (2, 3, ps.SuspendReason.MIGRATED)
    again = standby_of(rig, slot=3)
    rig.stop(again)
    assert [call[0] for call in heard.calls[-2:]] == ["start", "suspended"]
    assert heard.calls[-1][-1] is ps.SuspendReason.MIGRATED


@pytest.mark.parametrize(("known", "reported"), [(None, -1), (0, 6), (9, 9)])
def test_the_end_that_a_standby_update_listener_gets_is_never_before_the_loaded_records(
    known: int | None, reported: int
) -> None:
    """The known end may be that of a changelog that was empty a moment ago."""
    heard = HeardUpdates()
    partition, migrated = TopicPartition(CHANGELOG, 0), ps.SuspendReason.MIGRATED
    events = StandbyEvents(heard, partition, "counts", TASK, lambda: known)
    events.start(0, 0)
    events.restored(6, 6)
    events.suspended()
    assert heard.calls[1:] == [
        ("batch", TASK, 5, 6, reported),
        ("suspended", partition, "counts", 5, reported, migrated),
    ]


def test_an_error_of_a_standby_update_listener_ends_the_actor_and_names_the_listener(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path, processing_guarantee="exactly_once_v2")
    monkeypatch.setattr(HeardUpdates, "on_batch_loaded", raising(KeyError("no such board")))
    rig.spec = replace(rig.spec, standby_listener=HeardUpdates())
    log(rig, "ada", 1)
    loop = rig.loop(2)
    loop.assign(1, {}, READS)
    settle(loop)
    assert "HeardUpdates.on_batch_loaded raised an exception for store 'counts'" in (loop.finished.result(0) or "")
