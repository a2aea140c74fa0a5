"""Dead letters are written again as the records that they were, each once, whatever interrupts the replay."""

from __future__ import annotations

import itertools
import random
from contextlib import suppress
from typing import Any

import pytest

from penstock.cluster.dead_letters import reading
from penstock.cluster.dead_letters.letters import Filter
from penstock.cluster.dead_letters.notes import FOREIGN, NO_RECORD, NO_SOURCE, OWN, create_notes_topic, read_notes
from penstock.cluster.dead_letters.plan import BEFORE, SAME, Plan, Route, gone
from penstock.cluster.dead_letters.reading import all_letters
from penstock.cluster.dead_letters.replay import Pace, Planned, Replayer, plan_replay
from penstock.common.dead_letters import Replayed, replayed_header
from penstock.common.errors import ConfigError, ProductionError, StreamsError
from penstock.common.ids import TopicPartition
from penstock.common.murmur2 import partition_for
from penstock.common.step_progress import StepProgress
from penstock.common.topics import NewTopic
from penstock.kafka.contracts import TransactionAbortedError
from penstock.testing.fake_broker import FakeRecord
from tests.cluster.dead_letters.making import DLQ, Rig, error_headers
from tests.tiers import examples


def silent(_: StepProgress) -> None:
    pass


def planned(
    rig: Rig, selected: Filter | None = None, to: str | None = None, limit: int | None = None, by_key: bool = False
) -> Planned:
    route = Route(DLQ, rig.broker.topics(), to, by_key)
    return plan_replay(all_letters(rig.clients, DLQ), route, selected or Filter(), limit, silent)


def replayer(rig: Rig, *options: Any, **more: Any) -> Replayer:
    plan, replay, letters = planned(rig, *options, **more)
    create_notes_topic(rig.clients.admin(), DLQ)
    return Replayer(rig.clients, replay, plan, letters)


def replay(rig: Rig, *options: Any, **more: Any) -> Plan:
    made = replayer(rig, *options, **more)
    if made.plan.letters:
        made.run(silent)
    assert made.written == made.plan.letters
    return made.plan


def test_a_record_is_written_as_it_was_with_a_header_that_names_its_letter() -> None:
    rig = Rig(orders=4)
    own = [("source", b"shop"), ("none", None)]
    rig.put(partition=1)
    rig.put([*own, *error_headers("orders", 3, 42)], key=b"key", value=b"\xff", timestamp=1234, partition=1)
    plan = replay(rig)
    assert plan.written == {"orders": 2}
    [_, record] = rig.broker.records("orders")
    header = ("__penstock.replayed", b'{"topic":"orders-dlq","partition":1,"offset":1,"count":1}')
    assert record == FakeRecord(b"key", b"\xff", 1234, [*own, header])
    assert record in rig.broker.log(TopicPartition("orders", 3)).records


def test_a_record_that_fails_again_is_replayed_again_with_the_next_number() -> None:
    rig = Rig(orders=1)
    rig.put()
    replay(rig)
    [record] = rig.broker.records("orders")
    rig.put([*(record.headers or ()), *error_headers()])
    assert planned(rig).plan.again == 1
    assert replay(rig).left == {BEFORE: 1}
    headers = rig.broker.records("orders")[1].headers
    assert headers == [replayed_header(Replayed(DLQ, 0, 1, 2))]


def test_no_letter_is_replayed_twice_by_whatever_filter() -> None:
    rig = Rig(orders=1, other=1)
    for number in range(6):
        rig.put(error_headers("orders" if number % 2 else "other"), value=b"%d" % number, partition=number % 3 % 2)
    assert replay(rig, Filter(topics=("orders",))).letters == 3
    assert replay(rig, Filter(topics=("orders",))).letters == 0
    assert replay(rig, Filter(contains="3")).left == {BEFORE: 1}
    assert replay(rig).written == {"other": 3}
    rig.put(value=b"6")
    assert replay(rig).written == {"orders": 1}
    assert sorted(rig.values("orders") + rig.values("other"), key=str) == [b"%d" % number for number in range(7)]


def test_a_limit_ends_a_replay_and_the_next_one_continues() -> None:
    rig = Rig(orders=1)
    for number in range(7):
        rig.put(value=b"%d" % number, partition=number % 2)
    assert [replay(rig, limit=3).letters for _ in range(4)] == [3, 3, 1, 0]
    assert sorted(rig.values("orders"), key=str) == [b"%d" % number for number in range(7)]


def test_letters_that_arrive_after_the_plan_wait_for_the_next_replay() -> None:
    rig = Rig(orders=1)
    rig.put(value=b"1")
    made = replayer(rig)
    rig.put(value=b"2")
    rig.put(value=b"3", partition=1)
    made.run(silent)
    assert rig.values("orders") == [b"1"]
    assert replay(rig).letters == 2


def test_an_interrupted_replay_writes_nothing_of_its_last_transaction_and_continues_there() -> None:
    rig = Rig(orders=1)
    for number in range(10):
        rig.put(value=b"%d" % number)
    made = replayer(rig)
    now, waits = [0.0], iter(range(7))
    made.clock, made.rate = lambda: now[0], 1.0

    def interrupted(seconds: float) -> None:
        now[0] += seconds
        if next(waits, None) is None:
            raise KeyboardInterrupt

    made.wait = interrupted
    with pytest.raises(KeyboardInterrupt):
        made.run(silent)
    there = rig.values("orders")
    assert len(there) == made.written
    assert 0 < made.written < 8
    assert replay(rig).letters == 10 - made.written
    assert rig.values("orders") == [b"%d" % number for number in range(10)]


def test_a_replay_whose_commit_has_no_answer_is_not_written_twice() -> None:
    rig = Rig(orders=1)
    rig.put()
    made = replayer(rig)
    rig.broker.loses_answers = True
    with pytest.raises(TransactionAbortedError):
        made.run(silent)
    rig.broker.loses_answers = False
    assert replay(rig).left == {BEFORE: 1}
    assert rig.values("orders") == [b"v"]


def test_a_replay_whose_transaction_the_broker_has_aborted_writes_its_records_later() -> None:
    rig = Rig(orders=1)
    for number in range(3):
        rig.put(value=b"%d" % number)
    made = replayer(rig)
    made.rate = 1.0
    made.wait = lambda _: rig.broker.expire_transactions()
    with pytest.raises(TransactionAbortedError):
        made.run(silent)
    assert (made.written, rig.values("orders")) == (0, [])
    assert replay(rig).letters == 3


def test_an_interrupted_replay_forgets_nothing_that_earlier_ones_have_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_RECORDS", 1)
    rig = Rig(orders=1)
    for number in range(7):
        rig.put(error_headers(offset=number), value=b"%d" % number, partition=min(number, 1))
    assert replay(rig).letters == 7
    rig.put(error_headers(offset=7), value=b"7")
    made = replayer(rig)
    times = itertools.count(0.0, 3.0)
    made.clock = lambda: next(times)  # each letter is committed at once

    def interrupted(now: StepProgress) -> None:
        if now.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made.run(interrupted)
    assert made.written == 1
    assert replay(rig).letters == 0
    assert sorted(rig.values("orders"), key=str) == [b"%d" % number for number in range(8)]


def test_of_two_replays_at_a_time_the_second_one_writes_and_the_first_one_fails() -> None:
    rig = Rig(orders=1)
    for number in range(4):
        rig.put(value=b"%d" % number)
    first = replayer(rig)
    first.rate = 1.0

    def second(_: float) -> None:
        replay(rig)

    first.wait = second
    with pytest.raises(TransactionAbortedError):
        first.run(silent)
    assert sorted(rig.values("orders"), key=str) == [b"%d" % number for number in range(4)]


def test_a_replay_that_another_one_has_overtaken_writes_nothing_twice() -> None:
    rig = Rig(orders=1)
    rig.put()
    slow = replayer(rig)
    replay(rig)
    slow.run(silent)
    assert (slow.written, rig.values("orders")) == (0, [b"v"])


def test_a_record_with_several_letters_is_replayed_once() -> None:
    rig = Rig(orders=1)
    rig.put(error_headers(exception="A"), value=b"1")
    rig.put(error_headers(exception="B"), value=b"1", timestamp=5)
    rig.put(error_headers(exception="A"), value=b"1", partition=1)
    rig.put(error_headers(offset=8), value=b"2")
    plan = replay(rig)
    assert (plan.letters, plan.left) == (2, {SAME: 2})
    assert sorted(rig.values("orders"), key=str) == [b"1", b"2"]
    assert replay(rig).left == {BEFORE: 4}


@pytest.mark.parametrize("first", ["A", "B"])
def test_a_record_with_several_letters_is_replayed_once_by_several_filters(first: str) -> None:
    rig = Rig(orders=1)
    rig.put(error_headers(exception="A"))
    rig.put(error_headers(exception="B"))
    assert replay(rig, Filter(exceptions=(first,))).letters == 1
    rest = replay(rig)
    assert (rest.letters, rest.left) == (0, {BEFORE: 1, SAME: 1})
    assert rig.values("orders") == [b"v"]


def test_a_replay_that_another_filter_has_overtaken_writes_no_record_twice() -> None:
    rig = Rig(orders=1)
    rig.put(error_headers(exception="A"))
    rig.put(error_headers(exception="B"))
    slow = replayer(rig, Filter(exceptions=("B",)))
    replay(rig, Filter(exceptions=("A",)))
    slow.run(silent)
    assert (slow.written, rig.values("orders")) == (0, [b"v"])


def test_a_record_of_another_topic_of_the_same_name_is_another_record() -> None:
    rig = Rig(orders=1)
    rig.put(value=b"before the topic was created again")
    rig.put(value=b"after that")
    assert replay(rig).letters == 2


def test_letters_without_a_destination_are_counted_and_skipped() -> None:
    rig = Rig(orders=1)
    rig.put([("a", b"1")])
    rig.put(error_headers(None, -1, -1))
    rig.put(error_headers(None, -1, -1), key=None, value=None)
    rig.put(key=None, value=None)
    rig.put(error_headers("gone"))
    rig.put(error_headers(DLQ))
    rig.put()
    plan = replay(rig)
    assert plan.left == {FOREIGN: 1, NO_SOURCE: 1, NO_RECORD: 2, gone("gone"): 1, OWN: 1}
    assert (plan.read, plan.matching, plan.letters) == (7, 7, 1)
    assert replay(rig).left == {FOREIGN: 1, NO_SOURCE: 1, NO_RECORD: 2, gone("gone"): 1, OWN: 1, BEFORE: 1}


def test_letters_from_a_topic_that_was_gone_are_replayed_when_it_is_there_again() -> None:
    rig = Rig(orders=1)
    rig.put(value=b"1")
    rig.put(error_headers("gone"), value=b"2")
    assert replay(rig).written == {"orders": 1}
    rig.broker.create_topic(NewTopic("gone", 1))
    assert replay(rig).written == {"gone": 1}
    assert replay(rig).letters == 0


def test_another_topic_gets_all_letters_that_have_a_record_and_its_own_replay() -> None:
    rig = Rig(orders=1, repair=3)
    rig.put([("a", b"1")], value=b"foreign")
    rig.put(key=None, value=None)
    rig.put(error_headers("gone", 5), key=None, value=b"keyless")
    rig.put(value=b"orders")
    assert replay(rig, to="repair").left == {NO_RECORD: 1}
    assert sorted(rig.values("repair"), key=str) == [b"foreign", b"keyless", b"orders"]
    assert replay(rig, to="repair").letters == 0
    assert replay(rig).written == {"orders": 1}
    by_partition = [[each.value for each in rig.broker.log(TopicPartition("repair", p)).records] for p in range(3)]
    assert b"keyless" in by_partition[5 % 3]
    assert b"orders" in by_partition[partition_for(b"k", 3)]


def test_a_record_gets_the_partition_that_it_had_or_one_by_its_key() -> None:
    rig = Rig(orders=4)
    elsewhere = (partition_for(b"k", 4) + 1) % 4
    rig.put(error_headers(partition=elsewhere))
    rig.put(error_headers(partition=partition_for(b"k", 4)))
    rig.put(error_headers(partition=9))
    rig.put(error_headers(partition=9), key=None)
    plan = planned(rig).plan
    assert (plan.elsewhere, plan.moved) == (1, 2)
    assert planned(rig, by_key=True).plan.moved == 3
    replay(rig)
    written = [len(rig.broker.log(TopicPartition("orders", p)).records) - 1 for p in range(4)]
    expected = [0] * 4
    for at in (elsewhere, partition_for(b"k", 4), partition_for(b"k", 4), 9 % 4):
        expected[at] += 1
    assert [max(0, each) for each in written] == expected


def test_letters_of_a_topic_that_was_created_again_are_new() -> None:
    rig = Rig(orders=1)
    rig.put(value=b"1")
    replay(rig)
    rig.broker.delete_topic(DLQ)
    rig.broker.create_topic(NewTopic(DLQ, 2))
    rig.put(value=b"2")
    assert replay(rig).letters == 1
    assert rig.values("orders") == [b"1", b"2"]


def test_a_refused_record_ends_the_replay_and_the_next_one_continues() -> None:
    rig = Rig(orders=1)
    rig.broker.create_topic(NewTopic("small", 1, config={"max.message.bytes": "10"}))
    rig.put(value=b"1")
    rig.put(error_headers("small"), value=b"x" * 20)
    made = replayer(rig)
    with pytest.raises(ProductionError, match="larger than"):
        made.run(silent)
    assert (made.written, rig.values("orders")) == (0, [])
    assert replay(rig, Filter(topics=("orders",))).letters == 1


def test_the_notes_say_where_a_letter_was_replayed_to() -> None:
    rig = Rig(orders=1, repair=1)
    rig.put()
    rig.put(value=b"wanted")
    replay(rig, Filter(contains="wanted"), to="repair")
    replay(rig, Filter(contains="wanted"))
    notes = read_notes(rig.clients, DLQ)
    first, second = all_letters(rig.clients, DLQ).read("", silent)
    assert notes.replays_of(first) == []
    assert sorted(str(each.to) for each in notes.replays_of(second)) == ["None", "repair"]


def test_a_letter_that_several_filters_have_passed_was_replayed_once() -> None:
    rig = Rig(orders=1)
    for number, selected in enumerate((Filter(contains="v"), Filter())):
        rig.put(error_headers(offset=number))
        assert replay(rig, selected).letters == 1
    first, _ = all_letters(rig.clients, DLQ).read("", silent)
    assert [each.to for each in read_notes(rig.clients, DLQ).replays_of(first)] == [None]


def test_a_foreign_record_in_the_topic_of_notes_is_an_error_that_names_it() -> None:
    rig = Rig(orders=1)
    create_notes_topic(rig.clients.admin(), DLQ)
    rig.broker.append(f"{DLQ}-replays", FakeRecord(b"?", b"?", 0, None), 0)
    with pytest.raises(ConfigError, match="orders-dlq-replays"):
        read_notes(rig.clients, DLQ)


def test_letters_that_are_deleted_while_they_are_read_are_left_out() -> None:
    rig = Rig(orders=1)
    for number in range(4):
        rig.put(value=b"%d" % number)
    letters = all_letters(rig.clients, DLQ)
    rig.broker.delete_records(TopicPartition(DLQ, 0), 2)
    assert [each.value for each in letters.read("", silent)] == [b"2", b"3"]


def test_a_topic_that_was_created_again_while_it_is_read_is_an_error() -> None:
    rig = Rig(orders=1)
    rig.put()
    rig.put()
    rig.broker.delete_records(TopicPartition(DLQ, 0), 1)
    letters = all_letters(rig.clients, DLQ)
    rig.broker.delete_topic(DLQ)
    rig.broker.create_topic(NewTopic(DLQ, 2))
    with pytest.raises(StreamsError, match="was created again"):
        list(letters.read("", silent))


def test_a_pace_spreads_records_evenly_and_does_not_make_up_for_lost_time() -> None:
    now = [0.0]
    pace = Pace(10, lambda: now[0])
    assert [round(pace.wait_s(), 3) for _ in range(3)] == [0.0, 0.1, 0.2]
    now[0] = 50.0
    assert [round(pace.wait_s(), 3) for _ in range(2)] == [0.0, 0.1]
    assert [Pace(None, lambda: now[0]).wait_s() for _ in range(3)] == [0.0] * 3


class Interruptions:
    """Ends a replay at a random call: by Ctrl-C, by a broker that loses an answer, or by another replay."""

    def __init__(self, rng: random.Random, rig: Rig) -> None:
        self._rng, self._rig = rng, rig
        self._calls = rng.choice([None, rng.randrange(40)])
        self.now = 0.0

    def clock(self) -> float:
        self.now += self._rng.choice([0.0, 0.1, 3.0])
        if self._calls is not None:
            self._calls -= 1
            if self._calls == 0:
                self._interrupt()
        return self.now

    def _interrupt(self) -> None:
        match self._rng.randrange(4):
            case 0:
                raise KeyboardInterrupt
            case 1:
                self._rig.broker.loses_answers = True
            case 2:
                self._rig.broker.expire_transactions()
            case _:
                replayer(self._rig, random_filter(self._rng)).run(silent)


def random_filter(rng: random.Random) -> Filter:
    fields: dict[str, Any] = {
        "exceptions": ("A",), "topics": ("orders",), "since": 3, "until": 7, "contains": "1", "partitions": (0,),
    }  # fmt: skip
    return Filter(**{name: fields[name] for name in rng.sample(sorted(fields), rng.choice([0, 0, 1, 2]))})


@pytest.mark.parametrize("number", range(examples(40)))
def test_each_record_is_replayed_once_whatever_happens(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    monkeypatch.setattr(reading, "_RECORDS", rng.choice([1, 2, 1000]))
    rig = Rig(orders=3, other=1)
    written: set[bytes] = set()
    for _ in range(rng.randrange(2, 8)):
        for _ in range(rng.randrange(6)):
            topic, value = rng.choice(["orders", "other"]), b"%d" % rng.randrange(30)
            headers = error_headers(topic, int(value) % 3, int(value), rng.choice("AB"))
            rig.put(headers, value=topic.encode() + value, timestamp=rng.randrange(1, 10), partition=rng.randrange(2))
            written.add(topic.encode() + value)
        made = replayer(rig, random_filter(rng), limit=rng.choice([None, None, 1, 3]))
        ended = Interruptions(rng, rig)
        made.clock, made.rate, made.wait = ended.clock, rng.choice([None, 1.0]), lambda _: None
        with suppress(KeyboardInterrupt, StreamsError):
            made.run(silent)
        rig.broker.loses_answers = False
    last = replayer(rig)
    last.run(silent)
    found = [each or b"" for each in rig.values("orders") + rig.values("other")]
    assert sorted(found) == sorted(written)
