"""Letters that the engine writes, replayed: the record comes back as it was, and if it fails again that shows."""

from __future__ import annotations

import penstock as ps
from penstock.cluster.dead_letters.letters import Filter
from penstock.cluster.dead_letters.notes import create_notes_topic
from penstock.cluster.dead_letters.plan import Route
from penstock.cluster.dead_letters.reading import all_letters
from penstock.cluster.dead_letters.replay import Replayer, plan_replay
from penstock.cluster.dead_letters.summary import Summary
from penstock.common.dead_letters import read_replayed
from penstock.common.step_progress import StepProgress
from penstock.testing.fake_broker import FakeRecord
from tests.cluster.dead_letters.making import DLQ, Rig

BYTES, LONG = ps.Serdes.bytes(), ps.Serdes.long()


def silent(_: StepProgress) -> None:
    pass


class Application:
    """A program whose records fail, on the test driver, and its topics on a fake broker."""

    def __init__(self) -> None:
        self.rig = Rig(numbers=1)
        self.config = {
            "deserialization.exception.handler": ps.LogAndContinue(),
            "processing.exception.handler": ps.LogAndContinue(),
            "errors.dead.letter.queue.topic.name": DLQ,
        }
        self.begun = 0

    def process(self, divisor: int) -> list[int | None]:
        """Process all records that came since the last call. Returns the results; letters go to their topic."""
        builder = ps.StreamsBuilder()
        numbers = builder.stream("numbers", ps.Consumed.with_(ps.Serdes.string(), LONG))
        numbers.map_values(lambda value: value // divisor).to("out", ps.Produced.with_(ps.Serdes.string(), LONG))
        new = self.rig.broker.records("numbers")[self.begun :]
        self.begun += len(new)
        with ps.TopologyTestDriver(builder.build(), self.config) as driver:
            for each in new:
                driver.pipe("numbers", each.key, each.value, each.timestamp, each.headers or ())
            for letter in driver.create_output_topic(DLQ, BYTES, BYTES).read_records_to_list():
                record = FakeRecord(letter.key, letter.value, letter.timestamp, letter.headers)
                self.rig.broker.append(DLQ, record)
            return driver.create_output_topic("out", BYTES, LONG).read_values_to_list()

    def replay(self) -> None:
        letters = all_letters(self.rig.clients, DLQ)
        planned = plan_replay(letters, Route(DLQ, self.rig.broker.topics()), Filter(), None, silent)
        create_notes_topic(self.rig.clients.admin(), DLQ)
        Replayer(self.rig.clients, planned.replay, planned.plan, planned.letters).run(silent)


def test_records_of_letters_are_processed_when_the_program_is_mended() -> None:
    app = Application()
    ten, headers = (10).to_bytes(8, "big"), [("source", b"shop")]
    app.rig.broker.append("numbers", FakeRecord(b"k", ten, 1234, headers))
    app.rig.broker.append("numbers", FakeRecord(b"k", b"ten", 1235, headers))
    assert app.process(divisor=0) == []

    app.replay()
    assert app.process(divisor=0) == [], "both fail again"
    again = app.rig.broker.records("numbers")[2]
    assert (again.key, again.value, again.timestamp) == (b"k", ten, 1234)
    assert [name for name, _ in again.headers or ()] == ["source", "__penstock.replayed"]
    summary = Summary()
    for letter in all_letters(app.rig.clients, DLQ).read("", silent):
        summary.add(letter, False)
    assert {cause.exception: (count.letters, count.again) for cause, count in summary.counts()} == {
        "ZeroDivisionError": (2, 1),
        "penstock.common.errors.SerializationError": (2, 1),
    }

    app.replay()
    assert app.process(divisor=2) == [5], "the other one is no number"
    counts = [read_replayed(each.headers or ()) for each in app.rig.broker.records("numbers")]
    assert [None if each is None else each.count for each in counts] == [None, None, 1, 1, 2, 2]
