"""Exactly once beside a service that never answers: calls that end together only after the transaction's time."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from tests.actors.rig import Rig, settle
from tests.actors.test_calls import called, outputs, rig_of, steps

TRANSACTION_MS = 10_000


class Broker:
    """Aborts transactions that have been open for ten seconds, as the real one does."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._open_since: dict[object, int] = {}
        self.aborted = 0

    def tick(self) -> None:
        now_ms, producers = self._rig.clock.now_ms, self._rig.broker._producers.values()
        still_open = [each for _, each in producers if each is not None and each.partitions]
        self._open_since = {each: self._open_since.get(each, now_ms) for each in still_open}
        if any(now_ms - since >= TRANSACTION_MS for since in self._open_since.values()):
            self._rig.broker.expire_transactions()
            self._open_since.clear()
            self.aborted += 1


@pytest.mark.parametrize("records", [6, 40])
def test_records_of_one_key_whose_calls_never_end_are_dropped_one_after_the_other(tmp_path: Path, records: int) -> None:
    """Each call ends by its time-out, after five seconds; together they last longer than a transaction may."""
    config = {"processing_guarantee": "exactly_once_v2", "processing_exception_handler": ps.LogAndContinue()}
    rig, host = rig_of(tmp_path, called(ps.Calls(timeout_ms=5000)), **config)
    loop, broker = rig.running(), Broker(rig)
    rig.write("in", ("good", "good", 1), *(("hung", f"hung {number}", 1) for number in range(records)))
    for _ in range(1000):
        rig.clock.now_ms += 500
        steps(loop, 12)
        while "good" in host.values:
            host.end("good")
        steps(loop, 3)
        broker.tick()
        if rig.committed() == records + 1:
            break
    settle(loop)
    assert rig.committed() == records + 1
    assert 1 <= broker.aborted < records
    assert outputs(rig) == ["GOOD"]
