"""Dead letters over crashes: each bad record has one, exactly once; at least one, at least once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.common.ids import TaskId
from penstock.common.metric_names import TASK
from penstock.common.topics import NewTopic
from tests.actors.rig import LONG, STRING, Rig, settle

GUARANTEES = ["at_least_once", "exactly_once_v2"]
CONFIG: dict[str, Any] = {
    "deserialization_exception_handler": ps.LogAndContinue(),
    "processing_exception_handler": ps.LogAndContinue(),
    "errors_dead_letter_queue_topic_name": "letters",
}


def hundredth(value: int) -> int:
    return 100 // value


def dividing(state_dir: Path, guarantee: str, **config: Any) -> Rig:
    builder = ps.StreamsBuilder()
    numbers = builder.stream("in", ps.Consumed.with_(STRING, LONG))
    numbers.map_values(hundredth).to("out", ps.Produced.with_(STRING, LONG))
    rig = Rig(state_dir, builder.build(), processing_guarantee=guarantee, **CONFIG, **config)
    rig.clients.admin().create_topics([NewTopic("letters", 1)])
    return rig


def send(rig: Rig, rows: str) -> None:
    """One record for each letter: ``g`` is a number, ``z`` is zero, ``b`` is no number."""
    value = {"g": bytes(7) + b"\x04", "z": bytes(8), "b": b"bad"}
    for row in rows:
        text = value[row].decode("latin-1")
        rig.write("in", ("k", text, 1), partition=0)


def offsets(rig: Rig) -> Counter[int]:
    """Returns how many letters each source offset has."""
    letters = [dict(record.headers or ()) for record in rig.broker.records("letters")]
    return Counter(int(headers["__streams.errors.offset"] or b"") for headers in letters)


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 8, 13, 21, 34])
def test_an_actor_that_is_killed_at_any_moment_leaves_each_bad_record_its_letter(
    steps: int, guarantee: str, tmp_path: Path
) -> None:
    rig = dividing(tmp_path, guarantee)
    loop = rig.running()
    send(rig, "gb")
    rig.commit(loop)
    send(rig, "zgbbzg")
    for step in range(steps):
        rig.clock.now_ms += 1001 * (step % 4 == 3)
        loop.step()
    loop._finish("killed")
    loop = rig.running(epoch=2)
    send(rig, "bg")
    for _ in range(3):
        rig.commit(loop)
    assert rig.committed() == 10
    bad = {1, 2, 4, 5, 6, 8}
    if guarantee == "exactly_once_v2":
        assert offsets(rig) == dict.fromkeys(bad, 1)
    else:
        assert set(offsets(rig)) == bad


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_no_letter_counts_before_the_offset_of_its_record_is_committed(guarantee: str, tmp_path: Path) -> None:
    rig = dividing(tmp_path, guarantee)
    loop = rig.running()
    send(rig, "gbg")
    settle(loop)
    assert rig.committed() in (None, 0)
    assert len(rig.broker.records("letters")) == (guarantee == "at_least_once")
    rig.commit(loop)
    assert (rig.committed(), len(rig.broker.records("letters"))) == (3, 1)
    (task,) = _status(loop).tasks
    assert (task.dropped_records, task.dropped_by_handlers) == (1, 1)
    assert task.measured[TASK, "deserialization-handler-dropped-total"] == 1
    assert task.measured[TASK, "processing-handler-dropped-total"] == 0
    assert task.measured[TASK, "dead-letters-total"] == 1


def test_a_record_is_not_skipped_before_its_letter_is_written(tmp_path: Path) -> None:
    """The topic for letters is deleted while the application runs."""
    rig = dividing(tmp_path, "at_least_once")
    loop = rig.running()
    rig.broker.delete_topic("letters")
    send(rig, "gbg")
    rig.commit(loop)
    reported = loop.finished.result() or ""
    assert "'letters'" in reported
    assert "operator dead letters of the exception handlers" in reported
    assert rig.committed() in (None, 0, 1)


def test_under_at_least_once_a_failure_leaves_its_letter(tmp_path: Path) -> None:
    rig = dividing(tmp_path, "at_least_once")
    config = rig.spec.config.model_copy(update={"processing_exception_handler": ps.LogAndFail()})
    rig.spec = type(rig.spec)(rig.spec.topology, config)
    loop = rig.running(TaskId(0, 0))
    send(rig, "gz")
    for _ in range(5):
        rig.commit(loop)
    assert "ZeroDivisionError" in (loop.finished.result() or "")
    assert offsets(rig) == {1: 1}


def _status(loop: Any) -> Any:
    asked = loop.status()
    settle(loop)
    return asked.result()
