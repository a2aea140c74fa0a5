"""The end of a backfill: before each of its steps it looks if it may still hand over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.common.config import StreamsConfig
from penstock.common.errors import ApplicationStateError
from penstock.kafka.backfill_note import fingerprint
from penstock.objects.storage import ObjectLocation
from penstock.pipeline.backfill import backfill
from penstock.pipeline.backfill.backfill import BackfillOptions, _Backfill
from penstock.pipeline.backfill.planned_offsets import PlannedOffsets
from penstock.pipeline.backfill.work import Run, RunManifest, new_run_id

IDS = {"lines": "id of lines"}
STEPS = ["note", "results", "state", "offsets", "withdraw"]


class HandedOver:
    """Notes the steps of a hand-over, each when it is done."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.after: dict[str, Callable[[], None]] = {}

    def __getattr__(self, step: str) -> Callable[..., dict[str, int]]:
        def done(*_: object) -> dict[str, int]:
            self.steps.append(step)
            self.after.get(step, lambda: None)()
            return {}

        return done


class Rig:
    """A backfill whose stages are finished."""

    def __init__(self, folder: Path) -> None:
        self.members = 0
        self.ids: Mapping[str, str] = IDS
        self.to = HandedOver()
        offsets = PlannedOffsets([], [], [], "", [])
        self.run = Run.begin(ObjectLocation(str(folder)), RunManifest(new_run_id(), "app", "program", {}, offsets, IDS))
        it: Any = object.__new__(_Backfill)
        it._config = StreamsConfig.of({"application.id": "app", "bootstrap.servers": "localhost:9092"})
        it._options = BackfillOptions()
        it._admin = SimpleNamespace(
            group_members=lambda _: self.members, topic_ids=lambda _: self.ids, committed=lambda _: {}
        )
        it._plan = SimpleNamespace(
            until={}, fingerprint=fingerprint({}, {}), offsets=lambda _: {}, stages=(), notes=(),
            topics=SimpleNamespace(repartition=frozenset()),
        )  # fmt: skip
        it._run, it._checkpoints, it._topology, it._history, it._kafka = self.run, None, None, None, None
        it._hand_over = lambda: self.to
        self.backfill = it

    def hand_over(self) -> None:
        self.backfill.run(None, SimpleNamespace(begin=lambda *_: None), 0.0)


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    results = SimpleNamespace(metadata=dict, rows=lambda *_: None, read=lambda _: {}, finished=list)
    monkeypatch.setattr(backfill, "StageRunner", lambda *_, **__: SimpleNamespace(run_all=lambda: results))
    return Rig(tmp_path)


def test_a_hand_over_has_its_steps_in_order(rig: Rig) -> None:
    rig.hand_over()
    assert rig.to.steps == STEPS


def test_an_application_that_joins_while_the_note_is_written_is_seen(rig: Rig) -> None:
    rig.to.after["note"] = lambda: setattr(rig, "members", 1)
    with pytest.raises(ApplicationStateError, match="its group has 1 member"):
        rig.hand_over()
    assert rig.to.steps == ["note"]


def test_nothing_is_handed_over_if_a_topic_was_created_again_while_it_was_read(rig: Rig) -> None:
    rig.ids = {"lines": "another id"}
    with pytest.raises(ApplicationStateError, match="'lines' was deleted, and perhaps created again"):
        rig.hand_over()
    assert rig.to.steps == []


@pytest.mark.parametrize("step", ["results", "state"])
def test_a_process_that_wakes_after_another_one_has_continued_its_run_hands_nothing_more_over(
    rig: Rig, step: str
) -> None:
    rig.to.after[step] = lambda: rig.run.taken_over().delete()
    with pytest.raises(ApplicationStateError, match="has begun meanwhile"):
        rig.hand_over()
    assert rig.to.steps[-1] == step
