"""Cases of the corpus under ``exactly_once_v2`` with faults of all kinds; and deliberate mistakes, which are all seen.

``make fuzz-parity EXACTLY_ONCE=1`` plays all of them, in every way, and then random ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
import structlog

from penstock.actors.restore.restoration import Restoration
from penstock.common.ids import Offsets
from penstock.state.buffers.change_buffer import ChangeBuffer
from penstock.testing.fake_clients import FakeConsumer
from penstock.testing.fake_producers import FakeTransactionalProducer
from tests.live.shapes import every_shape
from tests.parity.fuzz.troubled_actors import ALL
from tests.parity.fuzz.under_exactly_once import WAYS, WITHOUT_FAULTS, TroubledReport, differing_under_exactly_once

EVERY = 8
"""One case in this many of the corpus is played here."""
SEED = 20261123
SHAPES = every_shape()


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Silences the log: aborts and restores would log thousands of lines."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.configure(**before)


def held(shape: str, every: int, most: int = 1000) -> tuple[TroubledReport, list[str]]:
    """Plays cases of ``shape`` in one way each; returns the report, and what differs in up to ``most`` of them."""
    report, found = TroubledReport(), []
    for number, case in enumerate(SHAPES[shape][::every]):
        for way in (WAYS[number % 3], WAYS[0]):
            before = report.cases
            found += differing_under_exactly_once(case, way, SEED, report)
            if report.cases > before:
                break
        if len(found) >= most:
            break
    return report, found


@pytest.mark.parametrize("shape", sorted(SHAPES))
@pytest.mark.long
def test_every_eighth_case_ends_as_if_nothing_had_befallen_its_actors(shape: str) -> None:
    print(f"seed {SEED}")
    report, found = held(shape, EVERY)
    assert not found, "\n".join(found)
    assert report.cases > 0
    assert WITHOUT_FAULTS not in report.left_out, "of the corpus each case has one order"
    assert report.faults.total() > report.cases or shape == "fuzz"


def test_every_kind_of_fault_befalls_some_and_records_are_aborted() -> None:
    report, _ = held("aggregate", 2)
    assert set(report.faults) == set(ALL)
    assert report.aborted > 50


def _offsets_outside_of_the_transaction(patch: pytest.MonkeyPatch) -> None:
    inside = FakeTransactionalProducer.commit_transaction

    def outside(self: FakeTransactionalProducer, offsets: Offsets, group_metadata: bytes) -> Future[None]:
        if self._broker.answers:
            self._broker.group(self._group).offsets.update(offsets)
        return inside(self, offsets, group_metadata)

    patch.setattr(FakeTransactionalProducer, "commit_transaction", outside)


def _aborted_rows_restored(patch: pytest.MonkeyPatch) -> None:
    begin = Restoration.__init__

    def reading_all(self: Restoration, make_consumer: Callable[[], Any], *rest: Any, **more: Any) -> None:
        def make() -> Any:
            consumer = make_consumer()
            assert isinstance(consumer, FakeConsumer)
            consumer._read_committed = False
            return consumer

        begin(self, make, *rest, **more)

    patch.setattr(Restoration, "__init__", reading_all)


def _results_outside_of_the_transaction(patch: pytest.MonkeyPatch) -> None:
    send = FakeTransactionalProducer.send

    def send_aside(self: FakeTransactionalProducer, topic: str, *record: Any, **more: Any) -> None:
        if topic.endswith("-changelog"):
            send(self, topic, *record, **more)
        else:
            transaction, self._transaction = self._transaction, None
            super(FakeTransactionalProducer, self).send(topic, *record, **more)
            self._transaction = transaction

    patch.setattr(FakeTransactionalProducer, "send", send_aside)


def _buffers_not_restored_after_an_abort(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ChangeBuffer, "lies_in_memory", False)


@pytest.mark.parametrize(
    ("plant", "shape"),
    [
        (_offsets_outside_of_the_transaction, "stateless"),
        (_aborted_rows_restored, "aggregate"),
        (_results_outside_of_the_transaction, "stateless"),
        (_buffers_not_restored_after_an_abort, "table_ops"),
    ],
)
def test_a_mistake_is_seen(
    plant: Callable[[pytest.MonkeyPatch], None], shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert held(shape, 1, most=1)[1]
